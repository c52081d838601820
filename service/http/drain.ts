import type { IncomingMessage } from 'node:http'

/** The rest of a refused body is read up to these limits, so that its sender reads the refusal. */
const LEFTOVER = { bytes_max: 64 << 20, ms_max: 5000 }

export function drainBody(body: IncomingMessage, { bytes_max, ms_max } = LEFTOVER): Promise<void> {
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
      if (bytes > bytes_max) finish()
    }
    const late = setTimeout(finish, ms_max)
    body.on('data', count).on('end', finish).on('close', finish).on('error', finish).resume()
  })
}
