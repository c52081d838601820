import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { LIMITS } from '../../../../contract/limits.ts'
import { AgentFailure } from '../../host/agent-failure.ts'

/** The announced length. Node.js enforces it, so a reader never mistakes a part for the whole. */
export function promisedBytes(answer: IncomingMessage): number {
  const length = answer.headers['content-length'] ?? ''
  if (/^\d{1,12}$/.test(length) && Number(length) <= LIMITS.browser.answer_bytes_max) return Number(length)
  answer.destroy()
  throw new AgentFailure('nonsense', 'The agent announced no number of bytes, or too many')
}

/** The headers prevent a browser that shows guest bytes from running them with this origin's rights. */
export function carry(answer: IncomingMessage, bytes: number, content_type: string, watch: (response: ServerResponse) => void) {
  const headers: OutgoingHttpHeaders = {
    'content-type': content_type,
    'content-length': bytes,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'content-security-policy': 'sandbox',
  }
  return {
    async stream(response: ServerResponse) {
      response.writeHead(200, headers)
      watch(response)
      await pipeline(answer, response).catch(() => undefined) // either side broke off: the missing bytes tell the reader
    },
  }
}
