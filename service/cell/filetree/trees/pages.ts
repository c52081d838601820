import type { Blobs, Digest } from './blobs.ts'
import { BlobError } from './blobs.ts'
import { type Entry, type PageRef, weightOf } from './entries.ts'

/*
 * A directory is a tree of pages, split by the bytes of its names. A branch has one page for each byte after the common prefix. Pages
 * depend on the names alone, so equal directories have equal pages, whatever edits made them.
 */

export const LEAF_NAMES_MAX = 128

/** The name is in bytes (see `bytesOf`). */
export type Named = readonly [name: string, entry: Entry]
/** null removes the name. */
export type Edit = readonly [name: string, entry: Entry | null]

interface Leaf {
  kind: 'leaf'
  names: readonly Named[]
}
interface Branch {
  kind: 'branch'
  prefix: string
  /** The key is the byte after the prefix; '' for the name that equals the prefix. */
  children: readonly (readonly [key: string, page: Page])[]
}
type Page = { kind: 'stored'; ref: PageRef } | Leaf | Branch

export interface PageReads {
  blobs: Pick<Blobs, 'get'>
}

/** Edits must be sorted and distinct. */
export async function editPages(reads: PageReads, ref: PageRef | null, edits: readonly Edit[]): Promise<Page | null> {
  return edit(reads, ref === null ? null : { kind: 'stored', ref }, edits)
}

async function edit(reads: PageReads, at: Page | null, edits: readonly Edit[]): Promise<Page | null> {
  if (edits.length === 0) return at
  if (at === null) return build(merge([], edits))
  const page = await loaded(reads, at)
  if (page.kind === 'leaf') return build(merge(page.names, edits))
  const { prefix } = page
  const inside = edits.filter(([name]) => name.startsWith(prefix))
  const outside = edits.flatMap(([name, entry]) => (entry === null || name.startsWith(prefix) ? [] : [[name, entry] as const]))
  const kept = await editBranch(reads, page, inside)
  return combine(reads, kept, outside)
}

async function editBranch(reads: PageReads, page: Branch, edits: readonly Edit[]): Promise<Page | null> {
  if (edits.length === 0) return page
  const at = page.prefix.length
  const groups = Map.groupBy(edits, ([name]) => name.charAt(at))
  const children: [string, Page][] = []
  for (const [key, child] of page.children) {
    const edited = await edit(reads, child, groups.get(key) ?? [])
    if (edited !== null) children.push([key, edited])
    groups.delete(key)
  }
  for (const [key, group] of groups) {
    const made = build(merge([], group))
    if (made !== null) children.push([key, made])
  }
  children.sort(([one], [other]) => (one < other ? -1 : 1))
  const names = children.reduce((sum, [, child]) => sum + namesIn(child), 0)
  if (names <= LEAF_NAMES_MAX) return build(await collect(reads, children))
  const [only] = children
  return children.length === 1 && only !== undefined ? only[1] : { kind: 'branch', prefix: page.prefix, children }
}

/** Adds names, none of which starts with the prefix of the page. */
async function combine(reads: PageReads, at: Page | null, added: readonly Named[]): Promise<Page | null> {
  if (added.length === 0) return at
  if (at === null) return build(added)
  const page = await loaded(reads, at)
  if (page.kind === 'leaf') return build(merge(page.names, added))
  const prefix = added.reduce((common, [name]) => commonPrefix(common, name), page.prefix)
  const groups = Map.groupBy(added, ([name]) => name.charAt(prefix.length))
  const own = page.prefix.charAt(prefix.length)
  const beside = groups.get(own) ?? []
  groups.delete(own)
  const mine = await combine(reads, page, beside)
  const children: [string, Page][] = mine === null ? [] : [[own, mine]]
  for (const [key, group] of groups) {
    const made = build(group)
    if (made !== null) children.push([key, made])
  }
  children.sort(([one], [other]) => (one < other ? -1 : 1))
  return { kind: 'branch', prefix, children }
}

/** The names must be sorted. */
function build(names: readonly Named[]): Page | null {
  if (names.length === 0) return null
  if (names.length <= LEAF_NAMES_MAX) return { kind: 'leaf', names }
  const [first, last] = [names[0], names.at(-1)]
  const prefix = commonPrefix(first?.[0] ?? '', last?.[0] ?? '') // sorted, so the first and last name have the common prefix of all
  const groups = Map.groupBy(names, ([name]) => name.charAt(prefix.length))
  const children = [...groups].flatMap(([key, group]) => {
    const page = build(group)
    return page === null ? [] : [[key, page] as const]
  })
  return { kind: 'branch', prefix, children }
}

function merge(names: readonly Named[], edits: readonly Edit[]): Named[] {
  const merged: Named[] = []
  let i = 0
  for (const [name, entry] of edits) {
    for (; i < names.length && (names[i] as Named)[0] < name; i++) merged.push(names[i] as Named)
    if (i < names.length && (names[i] as Named)[0] === name) i++
    if (entry !== null) merged.push([name, entry])
  }
  for (; i < names.length; i++) merged.push(names[i] as Named)
  return merged
}

function commonPrefix(one: string, other: string): string {
  let length = 0
  while (length < one.length && length < other.length && one[length] === other[length]) length++
  return one.slice(0, length)
}

async function collect(reads: PageReads, children: readonly (readonly [string, Page])[]): Promise<Named[]> {
  const names: Named[] = []
  for (const [, child] of children) {
    const page = await loaded(reads, child)
    if (page.kind === 'leaf') names.push(...page.names)
    else names.push(...(await collect(reads, page.children)))
  }
  return names
}

function namesIn(page: Page): number {
  switch (page.kind) {
    case 'stored':
      return page.ref.names
    case 'leaf':
      return page.names.length
    case 'branch':
      return page.children.reduce((sum, [, child]) => sum + namesIn(child), 0)
  }
}

export async function savePages(page: Page | null, put: (content: Buffer) => Digest): Promise<PageRef | null> {
  return page === null ? null : save(page, put)
}

function save(page: Page, put: (content: Buffer) => Digest): PageRef {
  if (page.kind === 'stored') return page.ref
  if (page.kind === 'leaf') {
    const sums = { names: page.names.length, entries: 0, bytes: 0 }
    for (const [, entry] of page.names) {
      const { entries, bytes } = weightOf(entry)
      sums.entries += entries
      sums.bytes += bytes
    }
    return { digest: put(encodeLeaf(page)), ...sums }
  }
  const children = page.children.map(([key, child]) => [key, save(child, put)] as const)
  const sums = { names: 0, entries: 0, bytes: 0 }
  for (const [, ref] of children) {
    sums.names += ref.names
    sums.entries += ref.entries
    sums.bytes += ref.bytes
  }
  return { digest: put(encodeBranch(page.prefix, children)), ...sums }
}

export async function findName(reads: PageReads, ref: PageRef | null, name: string): Promise<Entry | null> {
  for (let at = ref; at !== null;) {
    const page = await load(reads, at)
    if (page.kind === 'leaf') return page.names.find(([each]) => each === name)?.[1] ?? null
    if (!name.startsWith(page.prefix)) return null
    const key = name.charAt(page.prefix.length)
    const child = page.children.find(([each]) => each === key)?.[1]
    at = child?.kind === 'stored' ? child.ref : null
  }
  return null
}

export async function findNames(reads: PageReads, ref: PageRef | null, names: readonly string[]): Promise<Map<string, Entry>> {
  const found = new Map<string, Entry>()
  const find = async (at: PageRef, wanted: readonly string[]): Promise<void> => {
    const page = await load(reads, at)
    if (page.kind === 'leaf') {
      const asked = new Set(wanted)
      for (const [name, entry] of page.names) if (asked.has(name)) found.set(name, entry)
      return
    }
    const inside = wanted.filter((name) => name.startsWith(page.prefix))
    const groups = Map.groupBy(inside, (name) => name.charAt(page.prefix.length))
    for (const [key, child] of page.children) {
      const group = groups.get(key)
      if (group !== undefined && child.kind === 'stored') await find(child.ref, group)
    }
  }
  if (ref !== null && names.length > 0) await find(ref, names)
  return found
}

export async function* walkNames(reads: PageReads, ref: PageRef | null): AsyncGenerator<Named> {
  if (ref === null) return
  const page = await load(reads, ref)
  if (page.kind === 'leaf') yield* page.names
  else for (const [, child] of page.children) if (child.kind === 'stored') yield* walkNames(reads, child.ref)
}

export async function insideOf(reads: PageReads, ref: PageRef): Promise<{ pages: PageRef[]; names: readonly Named[] }> {
  const page = await load(reads, ref)
  if (page.kind === 'leaf') return { pages: [], names: page.names }
  return { pages: page.children.flatMap(([, child]) => (child.kind === 'stored' ? [child.ref] : [])), names: [] }
}

async function loaded(reads: PageReads, page: Page): Promise<Leaf | Branch> {
  return page.kind === 'stored' ? load(reads, page.ref) : page
}

export async function load({ blobs }: PageReads, { digest }: PageRef): Promise<Leaf | Branch> {
  const [kind, ...rest] = JSON.parse((await blobs.get(digest)).toString('utf8')) as [string, ...unknown[]]
  if (kind === 'leaf') return { kind, names: (rest as [string, ...Packed][]).map(([name, ...packed]) => [name, unpack(packed)]) }
  // The digest matches, so the blob is intact but is no page: the reference is corrupt.
  if (kind !== 'branch') throw new BlobError('corrupt', digest)
  const [prefix, ...children] = rest as [string, ...[string, ...PackedRef][]]
  return { kind, prefix, children: children.map(([key, ...ref]) => [key, { kind: 'stored', ref: unpackRef(ref) }]) }
}

type PackedRef = [digest: Digest, names: number, entries: number, bytes: number]
type Packed =
  | ['f', mode: number, modified_ms: number, size: number, content: Digest, sha256: Digest | null | 0]
  | ['d', mode: number, modified_ms: number, ...(PackedRef | [])]
  | ['l', modified_ms: number, target: string]

function encodeLeaf({ names }: Leaf): Buffer {
  return Buffer.from(JSON.stringify(['leaf', ...names.map(([name, entry]) => [name, ...pack(entry)])]))
}

function encodeBranch(prefix: string, children: readonly (readonly [string, PageRef])[]): Buffer {
  return Buffer.from(JSON.stringify(['branch', prefix, ...children.map(([key, ref]) => [key, ...packRef(ref)])]))
}

/** The order of the fields is part of the format. */
export function pack(entry: Entry): Packed {
  switch (entry.type) {
    case 'file': {
      const { mode, modified_ms, size, content, sha256 } = entry
      return ['f', mode, modified_ms, size, content, sha256 === content ? 0 : sha256] // usually equal: 0 saves the space of a second digest
    }
    case 'directory':
      return ['d', entry.mode, entry.modified_ms, ...(entry.page === null ? ([] as []) : packRef(entry.page))]
    case 'symlink':
      return ['l', entry.modified_ms, entry.target]
  }
}

export function unpack(packed: Packed): Entry {
  switch (packed[0]) {
    case 'f': {
      const [, mode, modified_ms, size, content, sha256] = packed
      return { type: 'file', mode, modified_ms, size, content, sha256: sha256 === 0 ? content : sha256 }
    }
    case 'd': {
      const [, mode, modified_ms, ...ref] = packed
      return { type: 'directory', mode, modified_ms, page: ref.length === 0 ? null : unpackRef(ref) }
    }
    case 'l':
      return { type: 'symlink', modified_ms: packed[1], target: packed[2] }
  }
}

function packRef({ digest, names, entries, bytes }: PageRef): PackedRef {
  return [digest, names, entries, bytes]
}

function unpackRef([digest, names, entries, bytes]: PackedRef): PageRef {
  return { digest, names, entries, bytes }
}
