import { createHash } from 'node:crypto'
import { LIMITS } from '../../../../contract/limits.ts'
import { digestOf } from './blob-files.ts'
import type { Blobs, Digest } from './blobs.ts'
import type { FileEntry } from './entries.ts'
import { CHUNK_BYTES, encodeChunks, isChunked, readChunks } from './tree.ts'

export type Content = Pick<FileEntry, 'size' | 'content' | 'sha256'>

type Source = Pick<Blobs, 'get'>

export function contentOf(bytes: Buffer): { content: Content; blobs: Buffer[] } {
  const sha256 = digestOf(bytes)
  if (!isChunked({ size: bytes.length })) return { content: { size: bytes.length, content: sha256, sha256 }, blobs: [bytes] }
  const chunks = cut(bytes)
  return listed(bytes.length, chunks.map(digestOf), sha256, chunks)
}

/** A small file is read whole to compute its digest. A large file reuses its full chunks, and only its last chunk is read. */
export async function appended(source: Source, old: Content, added: Buffer): Promise<{ content: Content; blobs: Buffer[] }> {
  const size = old.size + added.length
  if (!isChunked({ size })) return contentOf(Buffer.concat([await readPart(source, old, 0, old.size), added]))
  const before = isChunked(old) ? await readChunks(source, old.content) : old.size === 0 ? [] : [old.content]
  const whole = before.slice(0, Math.floor(old.size / CHUNK_BYTES))
  const rest = await readPart(source, old, whole.length * CHUNK_BYTES, old.size % CHUNK_BYTES)
  const chunks = cut(Buffer.concat([rest, added]))
  let sha256: Digest | null = null
  if (size <= LIMITS.file.revision_stat_bytes_max) {
    const hash = createHash('sha256')
    for (const chunk of whole) hash.update(await source.get(chunk))
    for (const chunk of chunks) hash.update(chunk)
    sha256 = hash.digest('hex')
  }
  return listed(size, [...whole, ...chunks.map(digestOf)], sha256, chunks)
}

export async function streamedContent(
  size: number,
  pieces: AsyncIterable<Buffer>,
  store: (blob: Buffer) => Promise<void>,
): Promise<Content> {
  const hash = createHash('sha256')
  const digests: Digest[] = []
  let held: Buffer[] = []
  let bytes = 0
  const keep = async (chunk: Buffer) => {
    digests.push(digestOf(chunk))
    await store(chunk)
  }
  for await (const piece of pieces) {
    hash.update(piece)
    held.push(piece)
    bytes += piece.length
    while (bytes > CHUNK_BYTES) {
      const all = Buffer.concat(held)
      await keep(all.subarray(0, CHUNK_BYTES))
      held = [all.subarray(CHUNK_BYTES)]
      bytes -= CHUNK_BYTES
    }
  }
  await keep(Buffer.concat(held))
  const sha256 = size <= LIMITS.file.revision_stat_bytes_max ? hash.digest('hex') : null
  const [only = ''] = digests
  if (!isChunked({ size })) return { size, content: only, sha256 }
  const list = encodeChunks(digests)
  await store(list)
  return { size, content: digestOf(list), sha256 }
}

export async function readPart(source: Source, file: Content, offset: number, length: number): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of partsOf(source, file, offset, length)) parts.push(part)
  return Buffer.concat(parts)
}

export async function* partsOf(source: Source, file: Content, offset: number, length: number): AsyncGenerator<Buffer> {
  const end = Math.min(offset + length, file.size)
  if (offset >= end) return
  if (!isChunked(file)) {
    yield await source.get(file.content, { offset, length: end - offset })
    return
  }
  const chunks = await readChunks(source, file.content)
  for (let at = offset; at < end;) {
    const index = Math.floor(at / CHUNK_BYTES)
    const from = at - index * CHUNK_BYTES
    const wanted = Math.min(end - at, CHUNK_BYTES - from)
    yield await source.get(chunks[index] ?? file.content, { offset: from, length: wanted })
    at += wanted
  }
}

function cut(bytes: Buffer): Buffer[] {
  const chunks: Buffer[] = []
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) chunks.push(bytes.subarray(at, at + CHUNK_BYTES))
  return chunks
}

function listed(size: number, digests: Digest[], sha256: Digest | null, chunks: Buffer[]): { content: Content; blobs: Buffer[] } {
  const list = encodeChunks(digests)
  return { content: { size, content: digestOf(list), sha256 }, blobs: [...chunks, list] }
}
