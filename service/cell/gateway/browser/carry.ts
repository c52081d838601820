import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { LIMITS } from '../../../../contract/limits.ts'
import { AgentTrouble } from '../../links/agent-trouble.ts'

/** How many bytes an answer promises. Node.js holds it to that: a reader never takes a part for the whole. */
export function promisedBytes(answer: IncomingMessage): number {
  const length = answer.headers['content-length'] ?? ''
  if (/^\d{1,12}$/.test(length) && Number(length) <= LIMITS.browser.answer_bytes_max) return Number(length)
  answer.destroy()
  throw new AgentTrouble('nonsense', 'The agent announced no number of bytes, or too many')
}

/** Bytes of the guest's under headers of our own. Whatever they hold, a browser that shows them must not run it here. */
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
      await pipeline(answer, response).catch(() => undefined) // whoever breaks off: the length tells the reader
    },
  }
}
