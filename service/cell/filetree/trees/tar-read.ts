import { BLOCK } from '../../../lib/tar-write.ts'
import { checkSum, decimal, notATar, numberAt, plainName, recordsOf, textAt, textOf } from './tar-fields.ts'
import { type Holes, holesOfHead, piecesOfExtension, piecesOfMap, withHoles } from './tar-sparse.ts'

/** An entry as the tar states it. The values are not validated. */
export interface TarItem {
  name: string
  type: 'file' | 'directory' | 'symlink' | 'hard_link' | 'other'
  mode: number
  modified_ms: number
  size: number
  target: string
}

const TYPES: Readonly<Record<string, TarItem['type']>> = {
  '0': 'file',
  '\0': 'file',
  '7': 'file',
  '1': 'hard_link',
  '2': 'symlink',
  '5': 'directory',
}
const EXTENDED_BYTES_MAX = 64 << 10

/** The caller must read a file's content before it calls `next` again. */
export class TarReader {
  readonly #source: AsyncIterator<Buffer>
  #pending: Buffer = Buffer.alloc(0)
  #content_left = 0
  #padding_left = 0
  /** null: the current file is not sparse. */
  #holes: Holes | null = null
  #bytes_left: number
  readonly #too_large: () => Error

  constructor(source: AsyncIterable<Buffer>, bytes_max: number, too_large: () => Error) {
    this.#source = source[Symbol.asyncIterator]()
    this.#bytes_left = bytes_max
    this.#too_large = too_large
  }

  /** @returns null at the end of the tar */
  async next(): Promise<TarItem | null> {
    await this.#drop()
    let said: Map<string, string> = new Map()
    for (;;) {
      const block = await this.#take(BLOCK, true)
      if (block === null) {
        if (said.size > 0) throw notATar()
        return null
      }
      if (block.every((byte) => byte === 0)) return this.#end()
      checkSum(block)
      const flag = String.fromCharCode(block[156] ?? 0)
      const size = numberAt(block, 124, 12)
      if (flag === 'x' || flag === 'g') {
        const records = recordsOf(await this.#extended(size))
        if (flag === 'x') said = new Map([...said, ...records])
      } else if (flag === 'L' || flag === 'K') {
        said.set(flag === 'L' ? 'path' : 'linkpath', textOf(await this.#extended(size)).replace(/\0.*$/s, ''))
      } else return await this.#item(block, flag, size, said)
    }
  }

  content(): AsyncGenerator<Buffer> {
    return this.#holes === null ? this.#archived() : withHoles(this.#holes, this.#archived())
  }

  async *#archived(): AsyncGenerator<Buffer> {
    while (this.#content_left > 0) {
      const piece = await this.#some(this.#content_left)
      this.#content_left -= piece.length
      yield piece
    }
  }

  async #item(block: Buffer, flag: string, plain_size: number, said: ReadonlyMap<string, string>): Promise<TarItem> {
    const holes = holesOfHead(block, flag, said)
    const type = holes === 'unknown' ? 'other' : holes === null ? (TYPES[flag] ?? 'other') : 'file'
    const size = said.has('size') ? decimal(said.get('size') ?? '') : plain_size
    const carries = type === 'file' || type === 'other'
    this.#content_left = carries ? size : 0
    this.#padding_left = (BLOCK - (this.#content_left % BLOCK)) % BLOCK
    if (this.#content_left > this.#bytes_left) throw this.#too_large()
    const name = said.get('GNU.sparse.name') ?? said.get('path') ?? plainName(block)
    const seconds = said.get('mtime')
    const modified_ms = seconds === undefined ? numberAt(block, 136, 12) * 1000 : Math.round(Number(seconds) * 1000)
    if (!Number.isSafeInteger(modified_ms)) throw notATar()
    this.#holes = holes === 'unknown' || holes === null ? null : await this.#mapped(holes)
    return {
      name,
      type,
      mode: numberAt(block, 100, 8) & 0o7777,
      modified_ms,
      size: this.#holes?.size ?? this.#content_left,
      target: said.get('linkpath') ?? textAt(block, 157, 100),
    }
  }

  async #mapped(holes: Holes): Promise<Holes> {
    if (holes.map === 'in_content') holes.pieces = await piecesOfMap(() => this.#mapBlock())
    while (holes.map === 'goes_on') piecesOfExtension(holes, await this.#block())
    const data = holes.pieces.reduce((all, { size }) => all + size, 0)
    if (data !== this.#content_left || data > holes.size) throw notATar()
    // A tree stores every byte of a file, so holes are charged to the limit at their full size.
    this.#bytes_left -= holes.size - data
    if (this.#content_left > this.#bytes_left) throw this.#too_large()
    return holes
  }

  async #mapBlock(): Promise<Buffer> {
    if (this.#content_left < BLOCK) throw notATar()
    this.#content_left -= BLOCK
    return this.#block()
  }

  async #block(): Promise<Buffer> {
    const block = await this.#take(BLOCK, false)
    if (block === null) throw notATar()
    return block
  }

  async #end(): Promise<null> {
    for (;;) if ((await this.#take(BLOCK, true, true)) === null) return null
  }

  async #drop(): Promise<void> {
    for (let left = this.#content_left + this.#padding_left; left > 0;) left -= (await this.#some(left)).length
    this.#content_left = this.#padding_left = 0
  }

  async #extended(size: number): Promise<Buffer> {
    if (size > EXTENDED_BYTES_MAX) throw notATar()
    const bytes = await this.#take(size, false)
    this.#padding_left = (BLOCK - (size % BLOCK)) % BLOCK
    await this.#drop()
    return bytes ?? Buffer.alloc(0)
  }

  /** @returns null at the end of the source, if `may_end` and no byte was read */
  async #take(bytes: number, may_end: boolean, may_be_short = false): Promise<Buffer | null> {
    const pieces: Buffer[] = []
    for (let left = bytes; left > 0;) {
      const piece = await this.#piece(left)
      if (piece === null) {
        if (may_be_short || (may_end && left === bytes)) return null
        throw notATar()
      }
      left -= piece.length
      pieces.push(piece)
    }
    return Buffer.concat(pieces)
  }

  async #some(bytes_max: number): Promise<Buffer> {
    const piece = await this.#piece(bytes_max)
    if (piece === null) throw notATar()
    return piece
  }

  async #piece(bytes_max: number): Promise<Buffer | null> {
    while (this.#pending.length === 0) {
      const next = await this.#source.next()
      if (next.done === true) return null
      this.#pending = next.value
      this.#bytes_left -= next.value.length
      if (this.#bytes_left < 0) throw this.#too_large()
    }
    const piece = this.#pending.subarray(0, bytes_max)
    this.#pending = this.#pending.subarray(piece.length)
    return piece
  }
}
