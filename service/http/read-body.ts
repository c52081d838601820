import type { IncomingMessage } from 'node:http'
import { fail } from '../lib/fail.ts'
import { drainBody } from './drain.ts'

/** Short, so that a sender that announces a large body and stalls gets its refusal soon. */
const REFUSED = { bytes_max: 64 << 20, ms_max: 1000 }

/** @returns null if the request has no body */
export async function readBody(request: IncomingMessage, bytes_max: number): Promise<Buffer | null> {
  const length = request.headers['content-length']
  if (length === undefined ? request.headers['transfer-encoding'] === undefined : length === '0') return null
  const body = length !== undefined && Number(length) > bytes_max ? null : await collect(request, bytes_max)
  if (body === null) {
    await drainBody(request, REFUSED)
    throw fail('payload_too_large', null, `The body is larger than ${bytes_max} bytes`, { details: { max_bytes: bytes_max } })
  }
  return body.length === 0 ? null : body
}

/** Uses no async iterator, because leaving one destroys the socket, and the refusal could not be sent. */
function collect(request: IncomingMessage, bytes_max: number): Promise<Buffer | null> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    const finish = (body: Buffer | null) => {
      request.off('data', more).off('end', end).off('close', gone).off('error', reject)
      resolve(body)
    }
    const more = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > bytes_max) finish(null)
      else chunks.push(chunk)
    }
    const end = () => finish(Buffer.concat(chunks))
    const gone = () => reject(new Error('the client left before its request was complete'))
    request.on('data', more).on('end', end).on('close', gone).on('error', reject)
  })
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** @returns undefined if the body is not JSON */
export function parseJson(body: Buffer): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(decoder.decode(body)) as unknown }
  } catch {
    return undefined // the caller answers 400
  }
}
