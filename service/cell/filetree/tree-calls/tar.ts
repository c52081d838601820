import type { filesTarRead, filesTarWrite } from '../../../../contract/routes/cell/tar.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { drainBody } from '../../../http/drain.ts'
import { partsOf } from '../trees/contents.ts'
import { bytesOf, type DirectoryEntry, type Entry, type TreePath } from '../trees/entries.ts'
import { findNames, type PageReads } from '../trees/pages.ts'
import { resolvePath } from '../trees/paths.ts'
import { padding, TAR_END, tarHead } from '../../../lib/tar-write.ts'
import { CHUNK_BYTES, listEntries, type TreeChange } from '../trees/tree.ts'
import { type Unpacked, unpackTar } from '../trees/unpack.ts'
import { tarTooLarge } from '../../gateway/files/tar-too-large.ts'
import { pathOf } from '../../gateway/files/path.ts'
import { asFailure, changing, reading, type Seen, type TreeHandler } from './calls.ts'
import { makeParents } from './change.ts'
import { pourPieces } from './read.ts'
import { checkInside, found, notADirectory, notAFile, refusalOf } from './rules.ts'

const PIECE_BYTES = 64 << 10

export const readTreeTar: TreeHandler<typeof filesTarRead> = (call, deps, ticket) => {
  const path = checkInside(pathOf(call.url), 'read')
  return reading(deps, ticket, call.query.tree_revision, async (seen) => {
    const { entry } = found(await resolvePath(seen, seen.root, path, { follow: true }), path, 'read')
    if (entry.type !== 'directory') throw notADirectory(path)
    ticket.room.take(2 * CHUNK_BYTES)
    const pieces = together(tarOf(seen, entry))
    const first = await pieces.next() // an error in the first piece can still be a refusal
    const headers = {
      'content-type': 'application/x-tar',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'x-tree-revision': seen.revision,
    }
    return {
      async stream(response) {
        response.writeHead(200, headers)
        // The status is already sent. Closing the connection shows the reader that the tar is incomplete.
        await pourPieces(first, pieces, response).catch(() => response.destroy())
      },
    }
  })
}

async function* tarOf(reads: Seen, directory: DirectoryEntry): AsyncGenerator<Buffer> {
  yield* tarBelow(reads, directory, '')
  yield TAR_END
}

async function* tarBelow(reads: Seen, directory: DirectoryEntry, prefix: string): AsyncGenerator<Buffer> {
  for await (const { name, entry } of listEntries(reads, directory)) {
    const shown = `${prefix}${name}`
    yield headOf(shown, entry)
    if (entry.type === 'directory') yield* tarBelow(reads, entry, `${shown}/`)
    if (entry.type !== 'file') continue
    yield* partsOf(reads.blobs, entry, 0, entry.size)
    yield padding(entry.size)
  }
}

function headOf(name: string, entry: Entry): Buffer {
  const { type, modified_ms } = entry
  if (entry.type === 'symlink') return tarHead({ name, type, mode: 0o777, modified_ms, size: 0, target: entry.target })
  return tarHead({ name, type, mode: entry.mode, modified_ms, size: entry.type === 'file' ? entry.size : 0 })
}

async function* together(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let held: Buffer[] = []
  let bytes = 0
  for await (const piece of pieces) {
    held.push(piece)
    bytes += piece.length
    if (bytes < PIECE_BYTES) continue
    yield Buffer.concat(held)
    held = []
    bytes = 0
  }
  if (bytes > 0) yield Buffer.concat(held)
}

export const writeTreeTar: TreeHandler<typeof filesTarWrite> = async (call, deps, ticket) => {
  const bytes_max = LIMITS.tar.upload_bytes_max
  try {
    const path = checkInside(pathOf(call.url), 'change')
    const { create_parents = false, links_out = false } = call.query
    if (Number(call.headers['content-length'] ?? 0) > bytes_max) throw tarTooLarge(bytes_max)
    ticket.room.take(3 * CHUNK_BYTES)
    // Protects the uploaded blobs from collection until the change refers to them.
    using holding = deps.trees.begin(ticket.entry.id)
    const unpacked = await unpackTar(call.body_stream as AsyncIterable<Buffer>, {
      bytes_max,
      links_out,
      put: (contents) => holding.put(contents),
    })
    return await changing(deps, ticket, call, async (seen) => ({
      changes: await changesOf(seen, unpacked, path, { create_parents, now: call.now }),
      status: 200,
      body: { path, entries: unpacked.count, bytes: unpacked.bytes, durable: true },
    }))
  } catch (error) {
    await drainBody(call.body_stream)
    throw asFailure(error)
  }
}

async function changesOf(
  seen: Seen,
  { entries }: Unpacked,
  path: string,
  { create_parents, now }: { create_parents: boolean; now: Date },
): Promise<TreeChange[]> {
  const { at, made, directory } = await targetOf(seen, path, create_parents, now)
  const changes = [...made]
  /** null: the directory does not exist yet. */
  const directories = new Map<string, DirectoryEntry | null>([['', directory]])
  const inside = Map.groupBy(entries.keys(), (name) => name.slice(0, Math.max(name.lastIndexOf('/'), 0)))
  const known = new Map<string, Map<string, Entry>>()
  for (const [name, entry] of entries) {
    const cut = name.lastIndexOf('/')
    const above = name.slice(0, Math.max(cut, 0))
    const there = known.get(above) ?? (await namesIn(seen, directories.get(above) ?? null, inside.get(above) ?? []))
    known.set(above, there)
    const before = there.get(bytesOf(name.slice(cut + 1))) ?? null
    const full: TreePath = [...at, ...name.split('/')]
    const is_directory = entry === null || entry.type === 'directory'
    if (is_directory && before !== null && before.type !== 'directory') throw notADirectory(shownOf(path, name))
    if (!is_directory && before?.type === 'directory') throw notAFile(shownOf(path, name), before)
    if (is_directory) directories.set(name, before?.type === 'directory' ? before : null)
    if (is_directory && before !== null) continue // the existing directory is not changed
    changes.push({ kind: 'put', path: full, entry: entry ?? { type: 'directory', mode: 0o755, modified_ms: now.getTime(), page: null } })
  }
  return changes
}

async function targetOf(
  seen: Seen,
  path: string,
  create_parents: boolean,
  now: Date,
): Promise<{ at: TreePath; made: TreeChange[]; directory: DirectoryEntry | null }> {
  const resolved = await resolvePath(seen, seen.root, path, { follow: true })
  if (resolved.kind === 'found') {
    if (resolved.entry.type !== 'directory') throw notADirectory(path)
    return { at: resolved.path, made: [], directory: resolved.entry }
  }
  const is_missing = resolved.kind === 'missing' || resolved.kind === 'no_parent'
  if (!is_missing || !create_parents) throw refusalOf(resolved, path, 'change')
  // `makeParents` makes all names but the last. The placeholder `-` is the last name, so the missing directory itself is made.
  const rest = resolved.kind === 'no_parent' ? resolved.rest : []
  const by_link = resolved.kind === 'no_parent' && resolved.by_link
  const { names, changes } = makeParents({ path: resolved.path, rest: [...rest, '-'], by_link }, path, now.getTime())
  return { at: names.slice(0, -1), made: changes, directory: null }
}

function shownOf(path: string, name: string): string {
  return `${path.replace(/\/+$/, '')}/${name}`
}

function namesIn(reads: PageReads, directory: DirectoryEntry | null, paths: readonly string[]): Promise<Map<string, Entry>> {
  const names = paths.map((path) => bytesOf(path.slice(path.lastIndexOf('/') + 1)))
  return findNames(reads, directory?.page ?? null, names)
}
