/** Native base64, where the platform has it. */
interface Fast {
  fromBase64?: (text: string) => Uint8Array<ArrayBuffer>
}
interface FastOut {
  toBase64?: () => string
}

export type Bytes = Uint8Array<ArrayBuffer>

export function fromBase64(text: string): Bytes {
  const { fromBase64: fast } = Uint8Array as unknown as Fast
  if (fast) return fast(text)
  if (typeof Buffer !== 'undefined') return new Uint8Array(Buffer.from(text, 'base64'))
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
}

export function toBase64(bytes: Uint8Array): string {
  const fast = (bytes as FastOut).toBase64
  if (fast) return fast.call(bytes)
  if (typeof Buffer !== 'undefined') return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64')
  let text = ''
  for (const byte of bytes) text += String.fromCharCode(byte)
  return btoa(text)
}

export function utf8(text: string): Bytes {
  return new TextEncoder().encode(text)
}

export function joined(parts: readonly Uint8Array[]): Bytes {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

/** Yields the lines of a stream. Drops an incomplete last line: the stream broke off within it. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = stream.getReader()
  const decoder = new TextDecoder()
  let rest: string[] = []
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const parts = decoder.decode(value, { stream: true }).split('\n')
      for (const [at, part] of parts.entries()) {
        rest.push(part)
        if (at === parts.length - 1) continue
        yield rest.join('')
        rest = []
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined) // the stream may have broken off already
  }
}
