import { digestOf } from './blob-files.ts'
import type { Blobs, Digest } from './blobs.ts'
import { BlobError } from './blobs.ts'
import { countEdit, type Counts, noCounts } from './diff.ts'
import { bytesOf, type DirectoryEntry, type Entry, nameOf, type TreePath } from './entries.ts'
import { type Edit, editPages, findName, findNames, insideOf, pack, type PageReads, savePages, unpack, walkNames } from './pages.ts'

/** Paths must differ. A change below a directory that is put applies inside it. */
export type TreeChange =
  /** A directory is put with everything that its page references. */
  | { kind: 'put'; path: TreePath; entry: Entry }
  | { kind: 'remove'; path: TreePath }
  | { kind: 'set'; path: TreePath; mode?: number; modified_ms?: number }

export class TreeMismatch extends Error {
  readonly path: TreePath

  constructor(path: TreePath) {
    super('A change does not fit the tree')
    this.path = path
  }
}

export function emptyRoot(created_at: Date): DirectoryEntry {
  return { type: 'directory', mode: 0o755, modified_ms: created_at.getTime(), page: null }
}

export interface EditedTree {
  root: DirectoryEntry
  /** Equal trees have equal digests. */
  digest: Digest
  /** The blobs of the new tree, which the earlier tree may lack. */
  blobs: Buffer[]
  counts: Counts
}

/** A directory whose names change gets `modified_ms`, unless a change sets its time. */
export async function editTree(
  reads: PageReads,
  root: DirectoryEntry,
  changes: readonly TreeChange[],
  modified_ms: number,
): Promise<EditedTree> {
  const blobs: Buffer[] = []
  const put = (content: Buffer): Digest => {
    blobs.push(content)
    return digestOf(content)
  }
  const counts = noCounts()
  const gathered = gather(changes)
  const edited = await editDirectory({ reads, put, modified_ms, counts }, root, gathered, [])
  countEdit(counts, root, edited, false)
  const digest = put(encodedRoot(edited))
  return { root: edited, digest, blobs, counts }
}

export async function readRoot({ blobs }: PageReads, digest: Digest): Promise<DirectoryEntry> {
  const [kind, ...packed] = JSON.parse((await blobs.get(digest)).toString('utf8')) as [string, ...Parameters<typeof unpack>[0]]
  const entry = kind === 'root' ? unpack(packed) : null
  if (entry?.type !== 'directory') throw new BlobError('corrupt', digest)
  return entry
}

/** Does not follow links. */
export async function findEntry(reads: PageReads, root: DirectoryEntry, path: TreePath): Promise<Entry | null> {
  let at: Entry = root
  for (const name of path) {
    if (at.type !== 'directory') return null
    const below: Entry | null = await findName(reads, at.page, bytesOf(name))
    if (below === null) return null
    at = below
  }
  return at
}

export async function* listEntries(reads: PageReads, directory: DirectoryEntry): AsyncGenerator<{ name: string; entry: Entry }> {
  for await (const [name, entry] of walkNames(reads, directory.page)) yield { name: nameOf(name), entry }
}

export interface Marks {
  has(digest: Digest): boolean
  /** Full digests: markTree skips everything below a marked page, so two pages must never be confused. */
  readonly pages: Set<Digest>
  /** Parts of the digests, to save memory for many contents. A collision only retains a blob for longer. */
  readonly contents: Set<number>
}

export function createMarks(): Marks {
  const pages = new Set<Digest>()
  const contents = new Set<number>()
  return { pages, contents, has: (digest) => pages.has(digest) || contents.has(partOf(digest)) }
}

export async function markTree(reads: PageReads, digest: Digest, { pages, contents }: Marks): Promise<void> {
  if (pages.has(digest)) return
  pages.add(digest)
  const pending = [(await readRoot(reads, digest)).page]
  for (let ref = pending.pop(); ref !== undefined; ref = pending.pop()) {
    if (ref === null || pages.has(ref.digest)) continue
    pages.add(ref.digest)
    const { pages: below, names } = await insideOf(reads, ref)
    for (const [, entry] of names) {
      if (entry.type === 'directory') pending.push(entry.page)
      if (entry.type !== 'file') continue
      contents.add(partOf(entry.content))
      if (isChunked(entry)) for (const chunk of await readChunks(reads.blobs, entry.content)) contents.add(partOf(chunk))
    }
    pending.push(...below)
  }
}

function partOf(digest: Digest): number {
  return Number.parseInt(digest.slice(0, 13), 16)
}

export const CHUNK_BYTES = 4 << 20

export function isChunked({ size }: { size: number }): boolean {
  return size > CHUNK_BYTES
}

export async function readChunks(blobs: Pick<Blobs, 'get'>, content: Digest): Promise<Digest[]> {
  const [kind, ...chunks] = JSON.parse((await blobs.get(content)).toString('utf8')) as string[]
  if (kind !== 'chunks') throw new BlobError('corrupt', content)
  return chunks
}

export function encodeChunks(chunks: readonly Digest[]): Buffer {
  return Buffer.from(JSON.stringify(['chunks', ...chunks]))
}

export function encodedRoot(root: DirectoryEntry): Buffer {
  return Buffer.from(JSON.stringify(['root', ...pack(root)]))
}

interface Gathered {
  change: TreeChange | null
  below: Map<string, Gathered>
}

function gather(changes: readonly TreeChange[]): Gathered {
  const all: Gathered = { change: null, below: new Map() }
  for (const change of changes) {
    let at = all
    for (const name of change.path) {
      const next: Gathered = at.below.get(name) ?? { change: null, below: new Map() }
      at.below.set(name, next)
      at = next
    }
    if (at.change !== null) throw new TreeMismatch(change.path)
    at.change = change
  }
  return all
}

interface Editing {
  reads: PageReads
  put(content: Buffer): Digest
  modified_ms: number
  /** null inside an entry whose contents are counted as a whole. */
  counts: Counts | null
}

async function editDirectory(editing: Editing, directory: DirectoryEntry, gathered: Gathered, path: TreePath): Promise<DirectoryEntry> {
  const edits: Edit[] = []
  let renamed = false
  const named = [...gathered.below].map(([name, below]) => ({ name, bytes: bytesOf(name), below }))
  const there = await findNames(
    editing.reads,
    directory.page,
    named.map(({ bytes }) => bytes),
  )
  for (const { name, bytes, below } of named) {
    const before = there.get(bytes) ?? null
    const after = await editEntry(editing, before, below, [...path, name])
    renamed ||= below.change?.kind === 'put' || below.change?.kind === 'remove'
    edits.push([bytes, after])
  }
  edits.sort(([one], [other]) => (one < other ? -1 : 1))
  const page = await savePages(await editPages(editing.reads, directory.page, edits), editing.put)
  const { change } = gathered
  const said = change?.kind === 'set' ? change : change?.kind === 'put' ? change.entry : null
  const modified_ms = said?.modified_ms ?? (renamed ? editing.modified_ms : directory.modified_ms)
  const mode = change?.kind === 'set' ? (change.mode ?? directory.mode) : directory.mode
  return { type: 'directory', mode, modified_ms, page }
}

/** An entry that the change brings with all its contents is counted as a whole. */
async function editEntry(editing: Editing, before: Entry | null, gathered: Gathered, path: TreePath): Promise<Entry | null> {
  const is_whole = bringsContents(before, gathered.change)
  const after = await editedEntry(is_whole ? { ...editing, counts: null } : editing, before, gathered, path)
  if (editing.counts !== null) countEdit(editing.counts, before, after, is_whole)
  return after
}

function bringsContents(before: Entry | null, change: TreeChange | null): boolean {
  if (before?.type !== 'directory') return true
  if (change?.kind !== 'put') return false
  return change.entry.type !== 'directory' || change.entry.page?.digest !== before.page?.digest
}

async function editedEntry(editing: Editing, before: Entry | null, gathered: Gathered, path: TreePath): Promise<Entry | null> {
  const { change, below } = gathered
  if (change?.kind === 'remove') {
    if (before === null || below.size > 0) throw new TreeMismatch(path)
    return null
  }
  const entry = change?.kind === 'put' ? change.entry : before
  if (entry === null) throw new TreeMismatch(path)
  if (entry.type === 'directory') return editDirectory(editing, entry, gathered, path)
  if (below.size > 0) throw new TreeMismatch(path)
  if (change?.kind !== 'set') return entry
  const modified_ms = change.modified_ms ?? entry.modified_ms
  return entry.type === 'file' ? { ...entry, mode: change.mode ?? entry.mode, modified_ms } : { ...entry, modified_ms }
}
