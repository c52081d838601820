import { createHash, type Hash } from 'node:crypto'
import { Transform, type TransformCallback } from 'node:stream'
import { LIMITS } from '../../../../contract/limits.ts'
import { fail } from '../../../lib/fail.ts'

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
    if (this.#bytes > LIMITS.file.write_bytes_max) return done(tooLarge())
    this.#hash?.update(chunk)
    done(null, chunk)
  }

  override _flush(done: TransformCallback): void {
    this.#ended = true
    done()
  }

  sha256(): string {
    this.#sha256 ??= this.#hash?.digest('hex') ?? ''
    return this.#sha256
  }

  saw({ bytes_written, sha256 }: { bytes_written: number; sha256: string }): boolean {
    return this.#ended && bytes_written === this.#bytes && (this.#hash === null || sha256 === this.sha256())
  }
}

export function tooLarge() {
  const max_bytes = LIMITS.file.write_bytes_max
  return fail('payload_too_large', null, `A file is written with at most ${max_bytes} bytes a call`, { details: { max_bytes } })
}
