import type { Entry, PageRef } from './entries.ts'
import { load, type Named, pack, type PageReads } from './pages.ts'

export interface NameDifference {
  name: string
  before: Entry | null
  after: Entry | null
}

/** A page that exists on one side only. The page has not been read. */
export interface PageDifference {
  page: PageRef
  is: 'added' | 'deleted'
}

type Difference = NameDifference | PageDifference

export async function* diffPages(reads: PageReads, before: PageRef | null, after: PageRef | null): AsyncGenerator<Difference> {
  if (before?.digest === after?.digest) return
  if (before === null || after === null) {
    if (after !== null) yield { page: after, is: 'added' }
    if (before !== null) yield { page: before, is: 'deleted' }
    return
  }
  const [old, young] = [await load(reads, before), await load(reads, after)]
  if (old.kind === 'leaf' && young.kind === 'leaf') yield* mergeNames(old.names, young.names)
  else if (old.kind === 'branch' && young.kind === 'branch') yield* diffBranches(reads, { ref: before, ...old }, { ref: after, ...young })
  else yield* mergeNames(await allNames(reads, before), await allNames(reads, after)) // one side is a single page and the other is a branch, so all names are compared
}

export async function* namesOfRun(reads: PageReads, { page, is }: PageDifference): AsyncGenerator<Difference> {
  const found = await load(reads, page)
  if (found.kind === 'leaf') {
    for (const [name, entry] of found.names) yield is === 'added' ? added(name, entry) : deleted(name, entry)
  } else {
    for (const [, child] of found.children) if (child.kind === 'stored') yield { page: child.ref, is }
  }
}

type Branch = Extract<Awaited<ReturnType<typeof load>>, { kind: 'branch' }> & { ref: PageRef }

async function* diffBranches(reads: PageReads, old: Branch, young: Branch): AsyncGenerator<Difference> {
  const shared = sharedLength(old.prefix, young.prefix)
  if (shared < old.prefix.length && shared < young.prefix.length) {
    const [first, second] = [{ page: old.ref, is: 'deleted' } as const, { page: young.ref, is: 'added' } as const]
    if (old.prefix < young.prefix) yield* [first, second]
    else yield* [second, first]
    return
  }
  const [left, right] = [childrenFrom(old, shared), childrenFrom(young, shared)]
  const keys = [...new Set([...left.keys(), ...right.keys()])].sort((one, other) => (one < other ? -1 : 1))
  for (const key of keys) yield* diffPages(reads, left.get(key) ?? null, right.get(key) ?? null)
}

/** The children by the byte at `shared`. A branch whose prefix is longer counts as a single child. */
function childrenFrom({ ref, prefix, children }: Branch, shared: number): Map<string, PageRef> {
  if (prefix.length > shared) return new Map([[prefix.charAt(shared), ref]])
  return new Map(children.flatMap(([key, child]) => (child.kind === 'stored' ? [[key, child.ref] as const] : [])))
}

function* mergeNames(old: readonly Named[], young: readonly Named[]): Generator<NameDifference> {
  let [i, k] = [0, 0]
  while (i < old.length || k < young.length) {
    const [before, after] = [old[i], young[k]]
    if (before !== undefined && (after === undefined || before[0] < after[0])) {
      yield deleted(...before)
      i += 1
    } else if (after !== undefined && (before === undefined || after[0] < before[0])) {
      yield added(...after)
      k += 1
    } else if (before !== undefined && after !== undefined) {
      if (!isSame(before[1], after[1])) yield { name: before[0], before: before[1], after: after[1] }
      i += 1
      k += 1
    }
  }
}

async function allNames(reads: PageReads, ref: PageRef): Promise<Named[]> {
  const page = await load(reads, ref)
  if (page.kind === 'leaf') return [...page.names]
  const names: Named[] = []
  for (const [, child] of page.children) if (child.kind === 'stored') names.push(...(await allNames(reads, child.ref)))
  return names
}

function isSame(one: Entry, other: Entry): boolean {
  return JSON.stringify(pack(one)) === JSON.stringify(pack(other))
}

function added(name: string, after: Entry): NameDifference {
  return { name, before: null, after }
}

function deleted(name: string, before: Entry): NameDifference {
  return { name, before, after: null }
}

function sharedLength(one: string, other: string): number {
  let length = 0
  while (length < one.length && length < other.length && one[length] === other[length]) length += 1
  return length
}
