import type { TreeEntry } from '../../../../contract/internal/host-trees.ts'
import type { Blobs } from '../trees/blobs.ts'
import { BlobError } from '../trees/blobs.ts'
import { partsOf } from '../trees/contents.ts'
import type { DirectoryEntry, Entry, TreePath } from '../trees/entries.ts'
import { differences } from './differences.ts'
import { encodeEntry } from './entries.ts'

const JOIN_BYTES = 64 << 10

/** @param before null: the host's copy is empty */
export async function* copyEntries(
  blobs: Pick<Blobs, 'get'>,
  before: DirectoryEntry | null,
  after: DirectoryEntry,
): AsyncGenerator<Buffer> {
  let held: Buffer[] = []
  let bytes = 0
  const add = (piece: Buffer) => {
    held.push(piece)
    bytes += piece.length
  }
  const taken = (): Buffer => {
    const joined = Buffer.concat(held)
    held = []
    bytes = 0
    return joined
  }
  add(line([], null, after))
  for await (const difference of differences({ blobs }, before, after)) {
    add(line(difference.path, difference.before, difference.after))
    if (difference.after?.type === 'file') {
      for await (const part of partsOf(blobs, difference.after, 0, difference.after.size)) {
        add(part)
        if (bytes >= JOIN_BYTES) yield taken()
      }
    }
    if (bytes >= JOIN_BYTES) yield taken()
  }
  add(Buffer.from(encodeEntry({ path: '', type: 'end' })))
  yield taken()
}

function line(path: TreePath, before: Entry | null, after: Entry | null): Buffer {
  return Buffer.from(encodeEntry(entryOf(path.join('/'), before, after)))
}

function entryOf(path: string, before: Entry | null, after: Entry | null): TreeEntry {
  if (after === null) return { path, type: 'remove' }
  const { modified_ms } = after
  switch (after.type) {
    case 'file':
      return { path, type: 'file', mode: after.mode, modified_ms, size: after.size }
    case 'symlink':
      return { path, type: 'symlink', modified_ms, target: after.target }
    case 'directory':
      return {
        path,
        type: 'directory',
        mode: after.mode,
        modified_ms,
        ...(before?.type === 'directory' || path === '' ? {} : { opaque: true }),
      }
  }
}

/** True if a blob of the host's old copy is missing: the collector may have removed it. */
export function isGone(error: unknown): boolean {
  return error instanceof BlobError && error.kind === 'missing'
}
