import { fail } from '../../lib/fail.ts'
import { bytesOf } from './entries.ts'

/**
 * Where a walk stood that takes the names of each directory byte by byte: a directory, then what is in it, then its next sibling. It is the
 * text of a cursor, as machine/internal/agent/bookmark has it.
 */
export interface Bookmark {
  /** Below the start of the walk. */
  path: string
  /** To which the walk gives a meaning. */
  number: number
}

export function cursorOf({ path, number }: Bookmark): string {
  return Buffer.from(`${number}:${path}`).toString('base64url')
}

/** Its schema says that it is base64url. */
export function bookmarkOf(cursor: string | undefined): Bookmark {
  if (cursor === undefined) return { path: '', number: 0 }
  const [, number, path] = /^(\d{1,9}):(.*)$/s.exec(Buffer.from(cursor, 'base64url').toString()) ?? []
  if (number === undefined || path === undefined)
    throw fail('bad_request', null, 'The cursor does not belong to this request', { details: { field: 'cursor' } })
  return { path, number: Number(number) }
}

/** The names of its path, which a walk follows down. */
export const stepsOf = ({ path }: Bookmark): readonly string[] => (path === '' ? [] : path.split('/'))

/** What a walk does with a name: `passed`, it comes before the place; `on`, the place is there or below it, by the steps of `rest`. */
export function nextOf(steps: readonly string[], name: string): { passed: boolean; on: boolean; rest: readonly string[] } {
  const [first, ...rest] = steps
  if (first === undefined) return { passed: false, on: false, rest: [] }
  if (name === first) return { passed: false, on: true, rest }
  return { passed: bytesOf(name) < bytesOf(first), on: false, rest: [] }
}
