/** SHA-256 of what it names, 64 hex digits. */
export type Digest = string

/** A part of a blob: the rest of it where no length is given. */
export interface BlobPart {
  offset: number
  length?: number
}

/** Content that is named by its digest. Whoever stores the same bytes twice stores them once. */
export interface Blobs {
  /**
   * All of them are durable when it answers: after a power cut they are there whole. A blob that is there counts as used again.
   * @param stored is called for each that was not there
   */
  put(contents: readonly Buffer[], stored?: (content: Buffer) => void): Promise<Digest[]>
  /** The bytes that the digest names, or a BlobTrouble: never others. */
  get(digest: Digest, part?: BlobPart): Promise<Buffer>
  has(digest: Digest): Promise<boolean>
  /** What is not there is deleted already. */
  delete(digest: Digest): Promise<void>
}

/** A blob that a tree names and that cannot be read. */
export class BlobTrouble extends Error {
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
