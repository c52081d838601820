import { fail } from '../../../lib/fail.ts'

export type Part =
  | { kind: 'query'; offset?: number; length?: number }
  | { kind: 'range'; offset: number; length: number }
  | { kind: 'unsatisfiable' }

const RANGE = /^bytes=(\d{1,15})-(\d{1,15})$/

/** Either offset and length, or a Range header (Cell, "Endpoints"). */
export function partOf(query: { offset?: number; length?: number }, range: string | undefined): Part {
  if (range === undefined) return { kind: 'query', ...query }
  if (query.offset !== undefined || query.length !== undefined) {
    throw fail('bad_request', null, 'Give offset and length, or a Range, not both', { details: { field: 'Range' } })
  }
  const [, start, end] = RANGE.exec(range.trim()) ?? []
  if (start === undefined || end === undefined || Number(end) < Number(start)) return { kind: 'unsatisfiable' }
  return { kind: 'range', offset: Number(start), length: Number(end) - Number(start) + 1 }
}

export function unsatisfiable(size: number) {
  return fail('range_not_satisfiable', null, 'The Range is not a single bytes=start-end within the file', { details: { size } })
}
