import { fail } from '../../lib/fail.ts'
import { BLOCK } from '../../lib/tar-write.ts'

/** An entry as its tar says it: nothing of it is judged. */
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
/** A name, a target and a few more. */
const EXTENDED_BYTES_MAX = 64 << 10
const strict = new TextDecoder('utf-8', { fatal: true })

/** Reads a tar as it comes. The content of a file is to be read before the next entry is asked for. */
export class TarReader {
  readonly #source: AsyncIterator<Buffer>
  #pending: Buffer = Buffer.alloc(0)
  /** Of the entry that was given last, with its padding. */
  #content_left = 0
  #padding_left = 0
  #bytes_left: number
  readonly #too_large: () => Error

  constructor(source: AsyncIterable<Buffer>, bytes_max: number, too_large: () => Error) {
    this.#source = source[Symbol.asyncIterator]()
    this.#bytes_left = bytes_max
    this.#too_large = too_large
  }

  /** null: the tar is over. */
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
      } else return this.#item(block, flag, size, said)
    }
  }

  /** The content of the entry that was given last, piece by piece. */
  async *content(): AsyncGenerator<Buffer> {
    while (this.#content_left > 0) {
      const piece = await this.#some(this.#content_left)
      this.#content_left -= piece.length
      yield piece
    }
  }

  #item(block: Buffer, flag: string, plain_size: number, said: ReadonlyMap<string, string>): TarItem {
    const type = TYPES[flag] ?? 'other'
    const size = said.has('size') ? decimal(said.get('size') ?? '') : plain_size
    const carries = type === 'file' || type === 'other'
    this.#content_left = carries ? size : 0
    this.#padding_left = (BLOCK - (this.#content_left % BLOCK)) % BLOCK
    if (this.#content_left > this.#bytes_left) throw this.#too_large()
    const name = said.get('path') ?? plainName(block)
    const seconds = said.get('mtime')
    const modified_ms = seconds === undefined ? numberAt(block, 136, 12) * 1000 : Math.round(Number(seconds) * 1000)
    if (!Number.isSafeInteger(modified_ms)) throw notATar()
    const sparse = [...said.keys()].some((key) => key.startsWith('GNU.sparse'))
    return {
      name,
      type: sparse ? 'other' : type,
      mode: numberAt(block, 100, 8) & 0o7777,
      modified_ms,
      size: this.#content_left,
      target: said.get('linkpath') ?? textAt(block, 157, 100),
    }
  }

  /** What follows the end is padding of the program that wrote it. */
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

  /** @param may_end null where there is nothing left at all. */
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

export function notATar() {
  return fail('validation_failed', null, 'The body is no tar, or ends in the middle of one')
}

function checkSum(block: Buffer): void {
  const said = numberAt(block, 148, 8)
  const sum = block.reduce((all, byte, at) => all + (at >= 148 && at < 156 ? 32 : byte), 0)
  if (sum !== said) throw notATar()
}

function plainName(block: Buffer): string {
  const prefix = block.toString('latin1', 257, 263) === 'ustar\0' ? textAt(block, 345, 155) : ''
  const name = textAt(block, 0, 100)
  return prefix === '' ? name : `${prefix}/${name}`
}

function textAt(block: Buffer, at: number, length: number): string {
  const field = block.subarray(at, at + length)
  const end = field.indexOf(0)
  return textOf(end < 0 ? field : field.subarray(0, end))
}

function textOf(bytes: Buffer): string {
  try {
    return strict.decode(bytes)
  } catch {
    throw fail('validation_failed', null, 'A name in the tar is not UTF-8')
  }
}

/** Octal digits, or a number in the base of 256 that GNU tar writes where those do not suffice. */
function numberAt(block: Buffer, at: number, length: number): number {
  const field = block.subarray(at, at + length)
  if (((field[0] ?? 0) & 0x80) !== 0) {
    const value = BigInt(`0x${field.toString('hex')}`) & ((1n << BigInt(length * 8 - 1)) - 1n)
    if (((field[0] ?? 0) & 0x40) !== 0 || value > BigInt(Number.MAX_SAFE_INTEGER)) throw notATar()
    return Number(value)
  }
  const text = field
    .toString('latin1')
    .replace(/[\0 ]+$/, '')
    .trimStart()
  if (!/^[0-7]*$/.test(text)) throw notATar()
  return text === '' ? 0 : Number.parseInt(text, 8)
}

function decimal(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw notATar()
  return Number(text)
}

function recordsOf(bytes: Buffer): Map<string, string> {
  const records = new Map<string, string>()
  for (let at = 0; at < bytes.length;) {
    const space = bytes.indexOf(32, at)
    const length = space < 0 ? 0 : decimal(bytes.toString('latin1', at, space))
    if (length <= space - at + 1 || at + length > bytes.length || bytes[at + length - 1] !== 10) throw notATar()
    const text = textOf(bytes.subarray(space + 1, at + length - 1))
    const equals = text.indexOf('=')
    if (equals < 1) throw notATar()
    records.set(text.slice(0, equals), text.slice(equals + 1))
    at += length
  }
  return records
}
