/** SHA-256 as 64 hex digits. */
export type Digest = string

export interface BlobPart {
  offset: number
  length?: number
}

export interface Blobs {
  /**
   * Once the promise resolves, the blobs survive a power cut. A blob that existed is marked as used now. @param stored is called for each
   * written blob
   */
  put(contents: readonly Buffer[], stored?: (content: Buffer) => void): Promise<Digest[]>
  /** @throws BlobError if the blob is missing or corrupt */
  get(digest: Digest, part?: BlobPart): Promise<Buffer>
  has(digest: Digest): Promise<boolean>
  delete(digest: Digest): Promise<void>
}

export class BlobError extends Error {
  readonly kind: 'missing' | 'corrupt'
  readonly digest: Digest

  constructor(kind: 'missing' | 'corrupt', digest: Digest) {
    super(`The blob ${digest} is ${kind}`)
    this.kind = kind
    this.digest = digest
  }
}

export function partOfBlob(content: Buffer, part: BlobPart | undefined): Buffer {
  if (part === undefined) return content
  return content.subarray(part.offset, part.length === undefined ? undefined : part.offset + part.length)
}
