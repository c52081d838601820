import { createHash } from 'node:crypto'
import type { TreeEntry } from '../../../../contract/internal/host-trees.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { digestOf } from '../trees/blob-files.ts'
import { bytesOf, type DirectoryEntry, type Entry, type TreePath } from '../trees/entries.ts'
import { findName, type PageReads, walkNames } from '../trees/pages.ts'
import { CHUNK_BYTES, encodeChunks, isChunked, type TreeChange } from '../trees/tree.ts'
import type { Content } from '../trees/contents.ts'
import { nameOf } from '../trees/entries.ts'
import type { EntryReader } from './entries.ts'

export class ChangesRefused extends Error {
  readonly why: string
  readonly path: string

  constructor({ why = '', path }: TreeEntry) {
    super(`The changes cannot be published: ${why}`)
    this.why = why
    this.path = path
  }
}

type Put = (contents: readonly Buffer[]) => Promise<unknown>

const BATCH_BYTES = 8 << 20
const BATCH_COUNT = 128

/** `base` is null for a directory that is new or replaces another entry. */
interface Open {
  path: TreePath
  base: DirectoryEntry | null
}

export async function readChanges(reader: EntryReader, reads: PageReads, root: DirectoryEntry, put: Put): Promise<TreeChange[]> {
  const changes: TreeChange[] = []
  const open: Open[] = []
  const batch = batching(put)
  const top: { opaque: boolean; seen: Set<string> } = { opaque: false, seen: new Set() }
  const baseOf = async (path: TreePath): Promise<Entry | null> => {
    while (open.length > path.length) open.pop()
    const above = open.at(-1)?.base ?? null
    const name = path.at(-1)
    if (name === undefined) return root
    return above === null ? null : findName(reads, above.page, bytesOf(name))
  }
  for (;;) {
    const entry = await reader.next()
    if (entry.type === 'end') break
    if (entry.type === 'refused') throw new ChangesRefused(entry)
    const path = entry.path === '' ? [] : entry.path.split('/')
    const base = await baseOf(path)
    if (path.length === 1 && entry.type !== 'remove') top.seen.add(path[0] as string)
    switch (entry.type) {
      case 'remove':
        if (base !== null) changes.push({ kind: 'remove', path })
        break
      case 'directory': {
        const kept = base?.type === 'directory' && entry.opaque !== true ? base : null
        open.push({ path, base: kept })
        if (path.length === 0) top.opaque = entry.opaque === true
        changes.push(directoryChange(path, entry, kept))
        break
      }
      case 'symlink':
        changes.push({ kind: 'put', path, entry: { type: 'symlink', modified_ms: entry.modified_ms ?? 0, target: entry.target ?? '' } })
        break
      case 'file': {
        const { mode = 0o644, modified_ms = 0, size = 0 } = entry
        const content = await contentOf(reader, size, batch.add)
        changes.push({ kind: 'put', path, entry: { type: 'file', mode, modified_ms, ...content } })
      }
    }
  }
  await batch.flush()
  if (top.opaque) changes.push(...(await removals(reads, root, top.seen)))
  return changes
}

/** The root of the tree is never replaced: only its mode and time are set. */
function directoryChange(path: TreePath, { mode = 0o755, modified_ms = 0 }: TreeEntry, kept: DirectoryEntry | null): TreeChange {
  if (kept !== null || path.length === 0) return { kind: 'set', path, mode, modified_ms }
  return { kind: 'put', path, entry: { type: 'directory', mode, modified_ms, page: null } }
}

/** An opaque root hides every earlier name that the command's entries do not contain. These names are removed. */
async function removals(reads: PageReads, root: DirectoryEntry, seen: ReadonlySet<string>): Promise<TreeChange[]> {
  const gone: TreeChange[] = []
  for await (const [bytes] of walkNames(reads, root.page)) {
    const name = nameOf(bytes)
    if (!seen.has(name)) gone.push({ kind: 'remove', path: [name] })
  }
  return gone
}

function batching(put: Put) {
  let held: Buffer[] = []
  let bytes = 0
  const flush = async () => {
    if (held.length > 0) await put(held)
    held = []
    bytes = 0
  }
  const add = async (content: Buffer) => {
    held.push(content)
    bytes += content.length
    if (bytes >= BATCH_BYTES || held.length >= BATCH_COUNT) await flush()
  }
  return { add, flush }
}

async function contentOf(reader: EntryReader, size: number, add: (content: Buffer) => Promise<void>): Promise<Content> {
  const chunks: string[] = []
  const whole = size <= LIMITS.file.revision_stat_bytes_max ? createHash('sha256') : null
  let only: Buffer = Buffer.alloc(0)
  for await (const chunk of reader.content(size, CHUNK_BYTES)) {
    only = chunk
    if (!isChunked({ size })) break
    chunks.push(digestOf(chunk))
    whole?.update(chunk)
    await add(chunk)
  }
  if (!isChunked({ size })) {
    await add(only)
    const sha256 = digestOf(only)
    return { size, content: sha256, sha256 }
  }
  const list = encodeChunks(chunks)
  await add(list)
  return { size, content: digestOf(list), sha256: whole?.digest('hex') ?? null }
}
