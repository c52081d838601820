import { createHash, type Hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { Transform, type TransformCallback } from 'node:stream'
import { LIMITS } from '../../../../contract/limits.ts'
import { fail } from '../../../lib/fail.ts'

/** What is left of a refused body is taken in, so that its sender lives to read the refusal. */
const LEFTOVER = { bytes_max: 64 << 20, ms_max: 5000 }

/** Counts a body on its way, digests it when asked to, and breaks off when it becomes too large. */
export class WriteBody extends Transform {
  readonly #hash: Hash | null
  #sha256: string | null = null
  #bytes = 0
  #ended = false

  constructor({ digested = false } = {}) {
    super()
    this.#hash = digested ? createHash('sha256') : null
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#bytes += chunk.length
    if (this.#bytes > LIMITS.file_write_bytes_max) return done(tooLarge())
    this.#hash?.update(chunk)
    done(null, chunk)
  }

  override _flush(done: TransformCallback): void {
    this.#ended = true
    done()
  }

  /** Of the whole body; '' when it was not digested. */
  sha256(): string {
    this.#sha256 ??= this.#hash?.digest('hex') ?? ''
    return this.#sha256
  }

  /** Whether an acknowledgement can be of what went through here. */
  saw({ bytes_written, sha256 }: { bytes_written: number; sha256: string }): boolean {
    return this.#ended && bytes_written === this.#bytes && (this.#hash === null || sha256 === this.sha256())
  }
}

export function tooLarge() {
  const max_bytes = LIMITS.file_write_bytes_max
  return fail('payload_too_large', null, `A file is written with at most ${max_bytes} bytes a call`, { details: { max_bytes } })
}

/** Reads and forgets the rest of a body, within reason. */
export function swallow(body: IncomingMessage): Promise<void> {
  if (body.readableEnded || body.destroyed) return Promise.resolve()
  return new Promise((resolve) => {
    let bytes = 0
    const finish = () => {
      clearTimeout(late)
      body.off('data', count).off('end', finish).off('close', finish).off('error', finish)
      resolve()
    }
    const count = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > LEFTOVER.bytes_max) finish()
    }
    const late = setTimeout(finish, LEFTOVER.ms_max)
    body.on('data', count).on('end', finish).on('close', finish).on('error', finish).resume()
  })
}
