// Sizes above 8 GiB use the GNU encoding.
import type { FileHandle } from 'node:fs/promises'
import { BLOCK, padding } from '../../lib/tar-write.ts'

const PIECE_BYTES = 1 << 20
const OCTAL_MAX = 8 ** 11 - 1
const BINARY = 0x80

export class BadTar extends Error {}

export interface TarHead {
  name: string
  size: number
}

export function tarHead({ name, size }: TarHead): Buffer {
  if (!/^[\x21-\x7e]{1,100}$/.test(name)) throw new Error(`${name} does not fit in the head of a tar`)
  const head = Buffer.alloc(BLOCK)
  head.write(name, 0)
  head.write('0000644\0', 100)
  head.write('0000000\0', 108)
  head.write('0000000\0', 116)
  if (size <= OCTAL_MAX) head.write(`${size.toString(8).padStart(11, '0')}\0`, 124)
  else {
    head.writeUInt8(BINARY, 124)
    head.writeBigUInt64BE(BigInt(size), 128)
  }
  head.write('00000000000\0', 136)
  head.write('0ustar\x0000', 156)
  head.write(`${sumOf(head).toString(8).padStart(6, '0')}\0 `, 148)
  return head
}

/** The checksum is computed as if its own field contained blanks. */
function sumOf(head: Buffer): number {
  return head.reduce((sum, byte, at) => sum + (at >= 148 && at < 156 ? 0x20 : byte), 0)
}

/** The caller must read all bytes of an entry before it calls next(). */
export class TarReader {
  private readonly file: FileHandle
  private position = 0

  constructor(file: FileHandle) {
    this.file = file
  }

  /** @returns null at the end of the archive. */
  async next(): Promise<TarHead | null> {
    const head = await this.exactly(BLOCK)
    if (head.every((byte) => byte === 0)) return null
    const name = head.toString('latin1', 0, 100).replace(/\0.*$/s, '')
    const sum = Number.parseInt(head.toString('latin1', 148, 154), 8)
    if (sum !== sumOf(head)) throw new BadTar('a head of the file is damaged')
    if (head[156] !== 0x30) throw new BadTar(`${name} is no plain file`)
    return { name, size: sizeOf(head) }
  }

  async *bytes(size: number): AsyncGenerator<Buffer> {
    for (let left = size; left > 0; left -= PIECE_BYTES) yield await this.exactly(Math.min(left, PIECE_BYTES))
    await this.exactly(padding(size).length)
  }

  private async exactly(length: number): Promise<Buffer> {
    const bytes = Buffer.alloc(length)
    let read = 0
    while (read < length) {
      const { bytesRead } = await this.file.read(bytes, read, length - read, this.position)
      if (bytesRead === 0) throw new BadTar('the file ends too early')
      read += bytesRead
      this.position += bytesRead
    }
    return bytes
  }
}

function sizeOf(head: Buffer): number {
  const size = head[124] === BINARY ? Number(head.readBigUInt64BE(128)) : Number.parseInt(head.toString('latin1', 124, 135), 8)
  if (!Number.isSafeInteger(size) || size < 0) throw new BadTar('a size in the file is no number')
  return size
}
