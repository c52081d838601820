import { LIMITS } from '../../../contract/limits.ts'
import type { KeyRing } from '../../core/keys/ring/ring.ts'
import { fail } from '../../lib/fail.ts'
import type { Principal } from '../../http/call.ts'

const ID_BYTES = 16
const MAC_BYTES = 16
const CURSOR = /^[A-Za-z0-9_-]{43}(?:[A-Za-z0-9_-]{5})?$/ // id and MAC; a MAC of the first key omits the key's id, which has 5 characters

/** Lists are newest first, so the next page holds the ids below `below`. */
export interface Page {
  limit: number
  below: string | null
}

interface ListCall {
  route: { id: string }
  who: Principal
  params: object
  query: { limit?: number; cursor?: string }
}

/** A cursor is valid only for the same route, filters, and project or person. */
export function pageOf(keys: KeyRing, call: ListCall): Page {
  const { limit = LIMITS.page.size_default, cursor } = call.query
  if (cursor === undefined) return { limit, below: null }
  const bytes = CURSOR.test(cursor) ? Buffer.from(cursor, 'base64url') : Buffer.alloc(0)
  const id = bytes.subarray(0, ID_BYTES)
  if (!keys.verifies(bytes.subarray(ID_BYTES), MAC_BYTES, boundTo(call), id)) throw badCursor()
  const hex = id.toString('hex')
  return { limit, below: [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-') }
}

/** @param rows one more than the page holds, if more exist */
export function pageAnswer<Row extends { id: string }, View>(
  keys: KeyRing,
  call: ListCall,
  rows: Row[],
  view: (row: Row) => View,
): { data: View[]; next_cursor: string | null } {
  const { limit = LIMITS.page.size_default } = call.query
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  return { data: page.map(view), next_cursor: rows.length > limit && last ? cursorAfter(keys, call, last.id) : null }
}

export function cursorAfter(keys: KeyRing, call: ListCall, id: string): string {
  const bytes = Buffer.from(id.replaceAll('-', ''), 'hex')
  return Buffer.concat([bytes, keys.sign(MAC_BYTES, boundTo(call), bytes)]).toString('base64url')
}

const WHERE_BYTES_MAX = 120

export function cursorAt(keys: KeyRing, call: ListCall, where: Buffer): string {
  if (where.length > WHERE_BYTES_MAX) throw new Error(`A cursor of ${where.length} bytes does not fit`)
  return Buffer.concat([Buffer.from([where.length]), where, keys.sign(MAC_BYTES, boundTo(call), where)]).toString('base64url')
}

/** @returns null at the start of the list. */
export function whereOf(keys: KeyRing, call: ListCall): Buffer | null {
  const { cursor } = call.query
  if (cursor === undefined) return null
  const bytes = /^[A-Za-z0-9_-]+$/.test(cursor) ? Buffer.from(cursor, 'base64url') : Buffer.alloc(1)
  const where = bytes.subarray(1, 1 + (bytes[0] ?? 0))
  const is_ours = bytes.toString('base64url') === cursor && keys.verifies(bytes.subarray(1 + where.length), MAC_BYTES, boundTo(call), where)
  if (!is_ours) throw badCursor()
  return where
}

function boundTo(call: ListCall): string {
  const { cursor: _cursor, limit: _limit, ...filters } = call.query as Record<string, unknown>
  return JSON.stringify([call.route.id, scopeOf(call.who), call.params, Object.entries(filters).sort()])
}

/** All keys of a project share cursors: another key can continue a listing. */
function scopeOf(who: Principal): string {
  return who.type === 'api_key' ? `project:${who.project_id}` : `user:${who.id}`
}

function badCursor() {
  return fail('validation_failed', null, 'The request is not valid', {
    details: { issues: [{ path: 'cursor', message: 'is not a cursor of this list' }] },
  })
}
