import type { Duplex } from 'node:stream'
import { STATUS_CODES } from 'node:http'
import type { Surface } from '../../contract/errors.ts'
import { fail } from '../lib/fail.ts'
import type { Ids } from '../lib/ids.ts'
import { refusal } from './envelope.ts'

const STATUS_OF: Record<string, number> = { HPE_HEADER_OVERFLOW: 431, ERR_HTTP_REQUEST_TIMEOUT: 408 }

/** Answers a request that the HTTP parser refused. Writes the envelope to the socket, since there is no request object. */
export function answerBrokenRequest(surface: Surface, ids: Ids, error: { code?: string }, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const status = STATUS_OF[error.code ?? ''] ?? 400
  const request_id = ids.next()
  const { body } = refusal(surface, fail('bad_request', null, 'The request could not be read'), request_id)
  const text = JSON.stringify(body)
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(text)}`,
    `x-request-id: ${request_id}`,
    'cache-control: no-store',
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${text}`, () => socket.destroy())
}
