import { LIMITS } from '../../../../contract/limits.ts'
import { fail, type Failure } from '../../../lib/fail.ts'
import { tarTooLarge } from '../../gateway/files/tar-too-large.ts'
import { streamedContent } from './contents.ts'
import type { Entry } from './entries.ts'
import { isName } from './names.ts'
import { type TarItem, TarReader } from './tar-read.ts'

/** The entries by path; directories precede their contents. null: the tar only implies the directory. */
export interface Unpacked {
  entries: Map<string, Entry | null>
  count: number
  bytes: number
}

export interface UnpackOptions {
  bytes_max: number
  links_out: boolean
  put(contents: readonly Buffer[]): Promise<unknown>
}

const BATCH_BYTES = 4 << 20
const BATCH_BLOBS = 256
const DEPTH_MAX = 1024

export async function unpackTar(source: AsyncIterable<Buffer>, options: UnpackOptions): Promise<Unpacked> {
  const { bytes_max, put } = options
  const tar = new TarReader(source, bytes_max, () => tarTooLarge(bytes_max))
  const batch = batches(put)
  const unpacked: Unpacked = { entries: new Map(), count: 0, bytes: 0 }
  for (let item = await tar.next(); item !== null; item = await tar.next()) {
    unpacked.count += 1
    if (unpacked.count > LIMITS.tar.entries_max) throw tarTooLarge(bytes_max)
    const path = pathOf(item)
    if (path === '') {
      if (item.type !== 'directory') throw refused(item.name, 'its path names nothing')
      continue // the directory exists and is not changed
    }
    addParents(unpacked.entries, path, item.name)
    const entry = await entryOf(item, path, unpacked, { tar, store: batch.store, links_out: options.links_out })
    const before = unpacked.entries.get(path)
    const was_directory = before === null || before?.type === 'directory'
    if (before !== undefined && was_directory !== (entry.type === 'directory')) throw refused(item.name, 'another entry has its path')
    unpacked.entries.set(path, entry)
  }
  await batch.flush()
  return unpacked
}

function pathOf({ name }: TarItem): string {
  if (name.startsWith('/')) throw refused(name, 'its path is absolute')
  if (Buffer.byteLength(name) > LIMITS.file.path_bytes_max) throw refused(name, 'its path is too long')
  const parts = name.split('/').filter((part) => part !== '' && part !== '.')
  if (parts.includes('..')) throw refused(name, 'its path leads out')
  if (parts.length > DEPTH_MAX || !parts.every(isName)) throw refused(name, 'its path is none')
  return parts.join('/')
}

function addParents(entries: Unpacked['entries'], path: string, name: string): void {
  for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) {
    const above = path.slice(0, at)
    const there = entries.get(above)
    if (there === undefined) entries.set(above, null)
    else if (there !== null && there.type !== 'directory') throw refused(name, 'its path leads through what is no directory')
  }
}

interface Unpacking {
  tar: TarReader
  store(content: Buffer): Promise<void>
  links_out: boolean
}

async function entryOf(item: TarItem, path: string, unpacked: Unpacked, { tar, store, links_out }: Unpacking): Promise<Entry> {
  const { mode, modified_ms, size, target, name } = item
  switch (item.type) {
    case 'file':
      unpacked.bytes += size
      return { type: 'file', mode, modified_ms, ...(await streamedContent(size, tar.content(), store)) }
    case 'directory':
      return { type: 'directory', mode, modified_ms, page: null }
    case 'symlink':
      if (target === '' || target.includes('\0') || Buffer.byteLength(target) > LIMITS.file.path_bytes_max)
        throw refused(name, 'it leads to no path')
      if (!links_out && leadsOut(path, target)) throw refused(name, 'it leads out of the directory')
      return { type: 'symlink', modified_ms, target }
    case 'hard_link': {
      const source = unpacked.entries.get(pathOf({ ...item, name: target }))
      if (source?.type !== 'file') throw refused(name, 'it is a link to what is no file of the tar')
      return source
    }
    case 'other':
      throw refused(name, 'only files, directories and links are unpacked')
  }
}

/** Checks the target alone: no link is followed here. */
function leadsOut(path: string, target: string): boolean {
  if (target.startsWith('/')) return true
  let depth = path.split('/').length - 1
  for (const part of target.split('/')) {
    if (part === '' || part === '.') continue
    depth += part === '..' ? -1 : 1
    if (depth < 0) return true
  }
  return false
}

function batches(put: UnpackOptions['put']) {
  let pending: Buffer[] = []
  let bytes = 0
  const flush = async () => {
    if (pending.length > 0) await put(pending)
    pending = []
    bytes = 0
  }
  return {
    flush,
    async store(content: Buffer): Promise<void> {
      pending.push(content)
      bytes += content.length
      if (bytes >= BATCH_BYTES || pending.length >= BATCH_BLOBS) await flush()
    },
  }
}

function refused(name: string, why: string): Failure {
  return fail('validation_failed', 'invalid_path', `An entry of the tar is refused: ${why}`, { details: { path: name } })
}
