import { fail } from '../../../lib/fail.ts'
import { bytesOf } from './entries.ts'

/**
 * The position of a walk in byte order, where a directory precedes its contents. The cursor has the format of
 * machine/internal/agent/bookmark.
 */
export interface Bookmark {
  path: string
  number: number
}

export function cursorOf({ path, number }: Bookmark): string {
  return Buffer.from(`${number}:${path}`).toString('base64url')
}

/** The request schema has checked the base64url. */
export function bookmarkOf(cursor: string | undefined): Bookmark {
  if (cursor === undefined) return { path: '', number: 0 }
  const [, number, path] = /^(\d{1,9}):(.*)$/s.exec(Buffer.from(cursor, 'base64url').toString()) ?? []
  if (number === undefined || path === undefined)
    throw fail('bad_request', null, 'The cursor does not belong to this request', { details: { field: 'cursor' } })
  return { path, number: Number(number) }
}

export const stepsOf = ({ path }: Bookmark): readonly string[] => (path === '' ? [] : path.split('/'))

/** Compares a name with the position. `passed`: the walk is past the name. `on`: the position is the name, or is below it at `rest`. */
export function nextOf(steps: readonly string[], name: string): { passed: boolean; on: boolean; rest: readonly string[] } {
  const [first, ...rest] = steps
  if (first === undefined) return { passed: false, on: false, rest: [] }
  if (name === first) return { passed: false, on: true, rest }
  return { passed: bytesOf(name) < bytesOf(first), on: false, rest: [] }
}
