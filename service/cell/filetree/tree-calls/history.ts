import { createHash } from 'node:crypto'
import type { treeDiff, treeRestore, treeRevisions } from '../../../../contract/routes/cell/tree.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Changes } from '../../../../contract/schemas/cell/change.ts'
import { fail } from '../../../lib/fail.ts'
import { type DiffCourse, diffTrees, noCounts, type TreeDifference } from '../trees/diff.ts'
import { type KeptRevision, readRevisions } from '../trees/history-store.ts'
import { TREE_ROOT } from '../trees/paths.ts'
import { changing, notKept, reading, type TreeHandler } from './calls.ts'
import { infoOf } from './rules.ts'
import type { TreePath } from '../trees/entries.ts'

export const listRevisions: TreeHandler<typeof treeRevisions> = (call, deps, ticket) => {
  const { cursor, limit = LIMITS.page.size_default } = call.query
  const before = cursor === undefined ? null : numberOf(cursor)
  return reading(deps, ticket, undefined, async () => {
    const found = await readRevisions(deps.db, ticket.entry.id, before, limit + 1)
    const data = found.slice(0, limit).map(recordOf)
    const last = found.length > limit ? data.at(-1) : undefined
    return { status: 200, body: { data, next_cursor: last === undefined ? null : String(last.tree_revision) } }
  })
}

function recordOf({ revision, created_at, entries, bytes, changes, made_by }: KeptRevision) {
  const by = made_by === null ? null : { call: null, execution_id: null, ...made_by }
  return { tree_revision: revision, created_at: created_at?.toISOString() ?? null, entries, bytes, changes, made_by: by }
}

export const restoreRevision: TreeHandler<typeof treeRestore> = (call, deps, ticket) => {
  const { tree_revision } = call.body
  return changing(deps, ticket, call, async ({ revision }) => {
    const body = { tree_revision: revision + 1, restored_revision: tree_revision }
    return { changes: [], restores: tree_revision, status: 200, body }
  })
}

export const diffRevisions: TreeHandler<typeof treeDiff> = async (call, deps, ticket) => {
  const { from, path_prefix = '', cursor, limit = LIMITS.page.size_default, summary = false } = call.query
  const place = cursor === undefined ? null : placeOf(cursor, from, call.query.to, path_prefix)
  return reading(deps, ticket, call.query.to ?? place?.to, async (seen) => {
    const before = await deps.trees.at(ticket.entry.id, from)
    if (before === null) throw notKept(from)
    const course = { skip: place?.skip ?? 0, wants: wanting(path_prefix) }
    const differences = diffTrees({ blobs: seen.blobs }, before.root, seen.root, course)
    const until = performance.now() + LIMITS.tree.diff_seconds_max * 1000
    const body = summary
      ? await summaryOf(differences, until)
      : await pageOf(differences, limit, until, (told) =>
          cursorOf({ from, to: seen.revision, skip: (place?.skip ?? 0) + told }, path_prefix),
        )
    return { status: 200, body }
  })
}

async function pageOf(
  differences: AsyncIterable<TreeDifference>,
  limit: number,
  until: number,
  cursorAfter: (told: number) => string,
): Promise<Changes> {
  const data: Changes['data'] = []
  for await (const difference of differences) {
    // The page is full, and this difference proves that a next page exists.
    if (data.length === limit || (data.length > 0 && performance.now() > until)) {
      return { data, next_cursor: cursorAfter(data.length), summary: null }
    }
    data.push(changeOf(difference))
  }
  return { data, next_cursor: null, summary: null }
}

async function summaryOf(differences: AsyncIterable<TreeDifference>, until: number): Promise<Changes> {
  const counts = noCounts()
  let looked = 0
  let truncated = false
  for await (const { change } of differences) {
    counts[change] += 1
    looked += 1
    if (looked < LIMITS.tree.diff_names_max && performance.now() < until) continue
    truncated = true
    break
  }
  return { data: [], next_cursor: null, summary: { ...counts, truncated } }
}

function changeOf({ path, change, entry }: TreeDifference): Changes['data'][number] {
  const { path: shown, type, size, mode, revision } = infoOf(pathText(path), entry, { revision: true })
  return { path: shown, change, type, size, mode, ...(revision === undefined ? {} : { sha256: revision }) }
}

function pathText(path: TreePath): string {
  return [TREE_ROOT, ...path].join('/')
}

function wanting(prefix: string): DiffCourse['wants'] {
  return (path) => {
    const own = pathText(path)
    if (own.startsWith(prefix)) return 'both'
    return prefix.startsWith(`${own}/`) || `${own}/`.startsWith(prefix) ? 'below' : 'nothing'
  }
}

/** A position in the differences between two revisions. Revisions never change, so a count of differences is a stable position. */
interface Place {
  from: number
  to: number
  skip: number
}

function cursorOf({ from, to, skip }: Place, path_prefix: string): string {
  return `${from}-${to}-${skip}-${checkOf(`${from}-${to}-${skip}`, path_prefix)}`
}

function placeOf(cursor: string, from: number, to: number | undefined, path_prefix: string): Place {
  const [, first, second, skip, check] = /^(\d{1,15})-(\d{1,15})-(\d{1,15})-([\w-]{16})$/.exec(cursor) ?? []
  const place = { from: Number(first), to: Number(second), skip: Number(skip) }
  const is_ours = first !== undefined && check === checkOf(`${first}-${second}-${skip}`, path_prefix)
  if (!is_ours || place.from !== from || (to !== undefined && place.to !== to)) throw notACursor()
  return place
}

function checkOf(place: string, path_prefix: string): string {
  return createHash('sha256').update(`${place}\0${path_prefix}`).digest('base64url').slice(0, 16)
}

function numberOf(cursor: string): number {
  if (!/^\d{1,15}$/.test(cursor)) throw notACursor()
  return Number(cursor)
}

export function notACursor() {
  const issues = [{ path: 'cursor', message: 'does not belong to this request' }]
  return fail('bad_request', null, 'The cursor does not belong to this request', { details: { field: 'cursor', issues } })
}
