import { type Bytes, joined } from './bytes.ts'
import type { Gateway } from './gateway.ts'
import type { ExecSession, ExecStdin } from './schemas.ts'
import type { CallOptions } from './transport.ts'

const REQUEST_BYTES_MAX = 1 << 20

interface Piece {
  bytes: Uint8Array
  close: boolean
  options: CallOptions | undefined
  done: () => void
  failed: (error: unknown) => void
}

/** Standard input of one command. Sends one request at a time, with all pending writes up to 1 MiB. */
export class Stdin {
  readonly #gateway: Gateway
  readonly #path: string
  /** Bytes taken by the command; undefined until the first write, since another program may have written before. */
  #taken: number | undefined
  #waiting: Piece[] = []
  #is_sending = false
  #broken: { by: unknown } | undefined

  constructor(gateway: Gateway, path: string, taken: number | undefined) {
    this.#gateway = gateway
    this.#path = path
    this.#taken = taken
  }

  /** Returns when the command has taken all bytes. */
  write(bytes: Uint8Array, { close, options }: Pick<Piece, 'close' | 'options'>): Promise<void> {
    const written = new Promise<void>((done, failed) => {
      this.#waiting.push({ bytes, close, options, done, failed })
    })
    if (!this.#is_sending) void this.#sendAll()
    return written
  }

  async #sendAll(): Promise<void> {
    this.#is_sending = true
    for (let together = this.#next(); together.length > 0; together = this.#next()) {
      try {
        // It is unknown how much of a failed request was taken, so later bytes could land in its place.
        if (this.#broken) throw this.#broken.by
        const [first] = together
        await this.#send(joined(together.map(({ bytes }) => bytes)), together.at(-1)?.close ?? false, first?.options)
        for (const { done } of together) done()
      } catch (error) {
        this.#broken ??= { by: error }
        for (const { failed } of together) failed(error)
      }
    }
    this.#is_sending = false
  }

  /** Takes the pieces for one request: without options of their own, and a close only as the last. */
  #next(): Piece[] {
    const [first, ...others] = this.#waiting
    if (!first) return []
    let bytes = first.bytes.length
    let count = 1
    if (!first.close && !first.options)
      for (const piece of others) {
        bytes += piece.bytes.length
        if (piece.options || bytes > REQUEST_BYTES_MAX) break
        count += 1
        if (piece.close) break
      }
    return this.#waiting.splice(0, count)
  }

  async #send(bytes: Bytes, close: boolean, options: CallOptions | undefined): Promise<void> {
    // The service drops bytes below the offset as a repeat.
    let taken = (this.#taken ??= await this.#takenBefore(options))
    for (let left = bytes; left.length > 0 || close;) {
      const body = left.subarray(0, REQUEST_BYTES_MAX)
      const is_last = body.length === left.length
      const query = { offset: taken, ...(close && is_last ? { close } : {}) }
      const headers = { 'content-type': 'application/octet-stream' }
      // The offset identifies every byte, so a retry writes nothing twice.
      const request = { method: 'POST', path: this.#path, query, headers, body, repeats: 'keyed' as const }
      const { offset } = await this.#gateway.call<ExecStdin>(request, options)
      left = left.subarray(offset - taken)
      this.#taken = taken = offset
      if (close && left.length === 0) return
    }
  }

  async #takenBefore(options: CallOptions | undefined): Promise<number> {
    const path = this.#path.replace(/\/stdin$/, '')
    return (await this.#gateway.call<ExecSession>({ method: 'GET', path }, options)).stdin?.offset ?? 0
  }
}
