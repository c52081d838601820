import type { ChangeKind } from '../../../../contract/schemas/cell/change.ts'
import { diffPages, type NameDifference, namesOfRun, type PageDifference } from './diff-pages.ts'
import { type DirectoryEntry, type Entry, nameOf, weightOf, type TreePath } from './entries.ts'
import type { PageReads } from './pages.ts'

/** `entry` is the new entry, or the old one if it was deleted. */
export interface TreeDifference {
  path: TreePath
  change: ChangeKind
  entry: Entry
}

export interface DiffCourse {
  skip: number
  wants(path: TreePath): 'it' | 'below' | 'both' | 'nothing'
}

/** A deleted directory yields one difference. Pages that are equal or skipped are not read. */
export async function* diffTrees(
  reads: PageReads,
  before: DirectoryEntry,
  after: DirectoryEntry,
  course: DiffCourse = { skip: 0, wants: () => 'both' },
): AsyncGenerator<TreeDifference> {
  const passing = { ...course }
  const wanted = course.wants([])
  if (before.mode !== after.mode && (wanted === 'it' || wanted === 'both'))
    yield* skipOrYield(passing, { path: [], change: 'metadata', entry: after })
  yield* below(reads, { before, after, path: [] }, passing)
}

interface Pair {
  before: Entry | null
  after: Entry | null
  path: TreePath
}

async function* below(reads: PageReads, { before, after, path }: Pair, course: DiffCourse): AsyncGenerator<TreeDifference> {
  const [old, young] = [before, after].map((entry) => (entry?.type === 'directory' ? entry.page : null))
  const pending: (NameDifference | PageDifference)[] = []
  for await (const difference of diffPages(reads, old ?? null, young ?? null)) {
    pending.push(difference)
    // Pages are opened one after another, so that the differences stay in order.
    for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
      if ('name' in next) yield* named(reads, next, path, course)
      else if (!passedOver(course, next, path)) pending.unshift(...(await opened(reads, next)))
    }
  }
}

async function opened(reads: PageReads, run: PageDifference): Promise<(NameDifference | PageDifference)[]> {
  const names: (NameDifference | PageDifference)[] = []
  for await (const each of namesOfRun(reads, run)) names.push(each)
  return names
}

function passedOver(course: DiffCourse, { page, is }: PageDifference, path: TreePath): boolean {
  const count = is === 'added' ? page.entries : page.names
  if (count > course.skip || course.wants(path) !== 'both') return false
  course.skip -= count
  return true
}

async function* named(reads: PageReads, difference: NameDifference, above: TreePath, course: DiffCourse): AsyncGenerator<TreeDifference> {
  const { before, after } = difference
  const path = [...above, nameOf(difference.name)]
  const wanted = course.wants(path)
  const change = changeOf(before, after)
  const entry = after ?? before
  if (change !== null && entry !== null && (wanted === 'it' || wanted === 'both')) yield* skipOrYield(course, { path, change, entry })
  if (after?.type !== 'directory' || wanted === 'it' || wanted === 'nothing') return
  yield* below(reads, { before: before?.type === 'directory' ? before : null, after, path }, course)
}

function* skipOrYield(course: DiffCourse, difference: TreeDifference): Generator<TreeDifference> {
  if (course.skip > 0) course.skip -= 1
  else yield difference
}

/** Compares two entries without the contents of directories. @returns null if they are equal */
export function changeOf(before: Entry | null, after: Entry | null): ChangeKind | null {
  if (before === null) return after === null ? null : 'added'
  if (after === null) return 'deleted'
  if (before.type !== after.type) return 'replaced'
  if (before.type === 'symlink' || after.type === 'symlink') {
    const same = before.type === 'symlink' && after.type === 'symlink' && before.target === after.target
    return same ? (before.modified_ms === after.modified_ms ? null : 'metadata') : 'modified'
  }
  if (before.type === 'directory' || after.type === 'directory') return before.mode === after.mode ? null : 'metadata'
  if (before.content !== after.content || before.size !== after.size) return 'modified'
  return before.mode === after.mode && before.modified_ms === after.modified_ms ? null : 'metadata'
}

export type Counts = Record<ChangeKind, number>

export function noCounts(): Counts {
  return { added: 0, modified: 0, metadata: 0, deleted: 0, replaced: 0 }
}

/** Reads no pages: the entries of a directory that is added as a whole are counted by the totals of its page. */
export function countEdit(counts: Counts, before: Entry | null, after: Entry | null, is_whole: boolean): void {
  const change = changeOf(before, after)
  if (change !== null) counts[change] += 1
  if (after?.type !== 'directory' || !is_whole) return
  counts.added += weightOf(after).entries - 1
  if (before?.type === 'directory') counts.deleted += before.page?.names ?? 0
}
