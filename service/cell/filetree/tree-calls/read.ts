import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { once } from 'node:events'
import type { filesList, filesRead, filesStat } from '../../../../contract/routes/cell/files.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { FileInfo } from '../../../../contract/schemas/cell/file.ts'
import { partsOf } from '../trees/contents.ts'
import { bookmarkOf, cursorOf, nextOf, stepsOf } from '../trees/bookmark.ts'
import type { DirectoryEntry, Entry, FileEntry } from '../trees/entries.ts'
import { resolvePath } from '../trees/paths.ts'
import { CHUNK_BYTES, listEntries } from '../trees/tree.ts'
import { pathOf } from '../../gateway/files/path.ts'
import { type Part, partOf, unsatisfiable } from '../../gateway/files/range.ts'
import { reading, type Seen, type TreeHandler } from './calls.ts'
import { checkInside, found, infoOf, notADirectory, notAFile } from './rules.ts'

export const statTreeFile: TreeHandler<typeof filesStat> = (call, deps, ticket) => {
  const path = checkInside(pathOf(call.url), 'read')
  return reading(deps, ticket, call.query.tree_revision, async (seen) => {
    const { entry } = found(await resolvePath(seen, seen.root, path, { follow: false }), path, 'read')
    return { status: 200, body: infoOf(path, entry, call.query) }
  })
}

export const listTreeFiles: TreeHandler<typeof filesList> = (call, deps, ticket) => {
  const path = checkInside(pathOf(call.url), 'read')
  const { limit = LIMITS.file.list_entries_default, cursor, recursive = false } = call.query
  const steps = stepsOf(bookmarkOf(cursor))
  return reading(deps, ticket, call.query.tree_revision, async (seen) => {
    const { entry } = found(await resolvePath(seen, seen.root, path, { follow: true }), path, 'read')
    if (entry.type !== 'directory') throw notADirectory(path)
    const prefix = `${path.replace(/\/+$/, '')}/`
    const entries: FileInfo[] = []
    let last = ''
    for await (const { below, name, entry: each } of listBelow(seen, entry, { recursive, steps })) {
      if (entries.length === limit) {
        return { status: 200, body: { entries, truncated: true, next_cursor: cursorOf({ path: last, number: 0 }) } }
      }
      entries.push({ ...infoOf(`${prefix}${below}`, each), name })
      last = below
    }
    return { status: 200, body: { entries, truncated: false, next_cursor: null } }
  })
}

async function* listBelow(
  seen: Seen,
  directory: DirectoryEntry,
  { recursive, steps }: { recursive: boolean; steps: readonly string[] },
  relative = '',
): AsyncGenerator<{ below: string; name: string; entry: Entry }> {
  for await (const { name, entry } of listEntries(seen, directory)) {
    const { passed, on, rest } = nextOf(steps, name)
    if (passed) continue
    const below = `${relative}${name}`
    if (!on) yield { below, name, entry }
    if (recursive && entry.type === 'directory') yield* listBelow(seen, entry, { recursive, steps: rest }, `${below}/`)
  }
}

export const readTreeFile: TreeHandler<typeof filesRead> = (call, deps, ticket) => {
  const path = checkInside(pathOf(call.url), 'read')
  const part = partOf(call.query, call.named_headers.Range)
  return reading(deps, ticket, call.query.tree_revision, async (seen) => {
    const { entry } = found(await resolvePath(seen, seen.root, path, { follow: true }), path, 'read')
    if (entry.type !== 'file') throw notAFile(path, entry)
    const { offset, bytes } = sizesOf(entry, part)
    ticket.room.take(Math.min(bytes, 2 * CHUNK_BYTES))
    const pieces = partsOf(seen.blobs, entry, offset, bytes)
    const first = await pieces.next() // an error in the first piece can still be a refusal
    const headers = headersOf(seen, entry, part, offset, bytes)
    return {
      async stream(response) {
        response.writeHead(part.kind === 'range' ? 206 : 200, headers)
        // The status is already sent. Closing the connection shows the reader that the content is incomplete.
        await pourPieces(first, pieces, response).catch(() => response.destroy())
      },
    }
  })
}

function sizesOf({ size }: FileEntry, part: Part): { offset: number; bytes: number } {
  if (part.kind === 'unsatisfiable') throw unsatisfiable(size)
  const { offset = 0, length = size } = part
  const bytes = Math.max(0, Math.min(length, size - offset))
  if (offset > size || (part.kind === 'range' && bytes === 0)) throw unsatisfiable(size)
  return { offset, bytes }
}

function headersOf({ revision }: Seen, { size, sha256 }: FileEntry, part: Part, offset: number, bytes: number): OutgoingHttpHeaders {
  return {
    'content-type': 'application/octet-stream',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'content-length': bytes,
    'x-tree-revision': revision,
    'x-file-size': size,
    ...(size <= LIMITS.file.revision_header_bytes_max && sha256 !== null ? { 'x-file-revision': sha256 } : {}),
    ...(part.kind === 'range' ? { 'content-range': `bytes ${offset}-${offset + bytes - 1}/${size}` } : {}),
  }
}

export async function pourPieces(first: IteratorResult<Buffer>, pieces: AsyncIterator<Buffer>, response: ServerResponse): Promise<void> {
  const left = new AbortController()
  response.once('close', () => left.abort())
  for (let piece = first; !piece.done; piece = await pieces.next()) {
    if (response.destroyed) return
    if (!response.write(piece.value)) await once(response, 'drain', { signal: left.signal })
  }
  response.end()
}
