import { Compile } from 'typebox/compile'
import { TreeEntry } from '../../../../contract/internal/host-trees.ts'
import { HostFailure } from '../../host/hostd.ts'

// The format is that of contract/internal/host-trees.ts: one line of JSON for each entry, and a file's content after its line.

const entry = Compile(TreeEntry)
const LINE_BYTES_MAX = 64 << 10

export function encodeEntry(value: TreeEntry): string {
  return `${JSON.stringify(value)}\n`
}

export class EntryReader {
  readonly #chunks: AsyncIterator<Buffer>
  #rest: Buffer = Buffer.alloc(0)

  constructor(stream: AsyncIterable<Buffer>) {
    this.#chunks = stream[Symbol.asyncIterator]()
  }

  async next(): Promise<TreeEntry> {
    for (let from = 0; ;) {
      const at = this.#rest.indexOf(10, from)
      if (at >= 0) {
        const line = this.#rest.subarray(0, at)
        this.#rest = this.#rest.subarray(at + 1)
        return parse(line)
      }
      from = this.#rest.length
      if (from > LINE_BYTES_MAX) throw misshapen('A line is too long')
      await this.#more()
    }
  }

  /** The caller must read the whole content before it reads the next entry. */
  async *content(size: number, piece_bytes: number): AsyncGenerator<Buffer> {
    for (let left = size; left > 0;) {
      const wanted = Math.min(left, piece_bytes)
      yield await this.#take(wanted)
      left -= wanted
    }
  }

  async #take(bytes: number): Promise<Buffer> {
    const parts: Buffer[] = []
    for (let left = bytes; left > 0;) {
      if (this.#rest.length === 0) await this.#more()
      const part = this.#rest.subarray(0, left)
      this.#rest = this.#rest.subarray(part.length)
      parts.push(part)
      left -= part.length
    }
    const [only] = parts
    return parts.length === 1 && only !== undefined ? Buffer.from(only) : Buffer.concat(parts)
  }

  async #more(): Promise<void> {
    const next = await this.#chunks.next()
    if (next.done === true) throw new HostFailure('unreachable', 'The machine host ended its answer in the middle', { retryable: true })
    this.#rest = this.#rest.length === 0 ? next.value : Buffer.concat([this.#rest, next.value])
  }
}

function parse(line: Buffer): TreeEntry {
  let value: unknown
  try {
    value = JSON.parse(line.toString('utf8'))
  } catch {
    throw misshapen('A line is not JSON')
  }
  if (!entry.Check(value)) throw misshapen('A line is not an entry of a tree')
  return value
}

function misshapen(message: string): HostFailure {
  return new HostFailure('invalid_answer', message, { retryable: false })
}
