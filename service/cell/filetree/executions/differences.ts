import type { Changed } from '../../../../contract/schemas/cell/execution.ts'
import { diffPages, namesOfRun } from '../trees/diff-pages.ts'
import { type DirectoryEntry, type Entry, nameOf, type TreePath } from '../trees/entries.ts'
import type { PageReads } from '../trees/pages.ts'
import { TREE_ROOT } from '../trees/paths.ts'

export interface Difference {
  path: TreePath
  before: Entry | null
  after: Entry | null
}

/** Pages that are equal on both sides are not read. A removed directory yields one difference, without its contents. */
export async function* differences(
  reads: PageReads,
  before: DirectoryEntry | null,
  after: DirectoryEntry,
  path: TreePath = [],
): AsyncGenerator<Difference> {
  const pending: Found[] = []
  for await (const found of diffPages(reads, before?.page ?? null, after.page)) {
    pending.push(found)
    for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
      if ('page' in next) {
        const inside: Found[] = []
        for await (const each of namesOfRun(reads, next)) inside.push(each)
        pending.unshift(...inside)
        continue
      }
      const difference = { path: [...path, nameOf(next.name)], before: next.before, after: next.after }
      yield difference
      if (next.after?.type !== 'directory') continue
      yield* differences(reads, next.before?.type === 'directory' ? next.before : null, next.after, difference.path)
    }
  }
}

type Found = ReturnType<typeof diffPages> extends AsyncGenerator<infer F> ? F : never

/** @returns null for a directory whose mode is unchanged */
export function changedOf({ path, before, after }: Difference): Changed | null {
  const entry = after ?? before
  if (entry === null) return null
  const change = after === null ? 'deleted' : before === null ? 'added' : 'modified'
  if (before?.type === 'directory' && after?.type === 'directory' && before.mode === after.mode) return null
  return { path: [TREE_ROOT, ...path].join('/'), change, type: entry.type }
}
