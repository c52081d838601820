import { Transform, type TransformCallback } from 'node:stream'

export class AtMost extends Transform {
  #left: number
  readonly #more: () => Error

  constructor(bytes_max: number, more = () => new Error('The file is too large')) {
    super()
    this.#left = bytes_max
    this.#more = more
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#left -= chunk.length
    if (this.#left < 0) done(this.#more())
    else done(null, chunk)
  }
}
