import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { pipeline } from 'node:stream/promises'
import type { filesRead } from '../../../../contract/routes/cell/files.ts'
import { AgentFailure } from '../../host/agent-failure.ts'
import { callAgent } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { endWhenIdle } from '../end-when-idle.ts'
import { AtMost } from './at-most.ts'
import { pathOf } from './path.ts'
import { pipeFile } from './pipe-file.ts'
import { type Part, partOf, unsatisfiable } from './range.ts'

export const readFile: GatewayHandler<typeof filesRead> = async (call, { agent_idle_ms }, ticket) => {
  const path = pathOf(call.body_stream.url ?? '')
  const part = partOf(call.query, call.named_headers.Range)
  const wanted = part.kind === 'unsatisfiable' ? { offset: 0, length: 0 } : sizesOf(part)
  const { file, described } = await callAgent(ticket, 'read', call, async (bounds) => {
    const file = await ticket.files.openFile(path, wanted, bounds)
    return { file, described: describe(file, part) }
  })
  if (part.kind === 'unsatisfiable' || (part.kind === 'range' && described.bytes === 0)) {
    file.destroy()
    throw unsatisfiable(described.size)
  }
  return {
    async stream(response) {
      response.writeHead(part.kind === 'range' ? 206 : 200, { ...described.headers, ...ticket.read_headers })
      endWhenIdle(file, response, ticket, agent_idle_ms)
      // A failure destroys the response, so that the reader does not mistake a part for the whole.
      const { bytes } = described
      const carried = bytes === null ? pipeline(file, new AtMost(UNSIZED_BYTES_MAX), response) : pipeFile(file, bytes, response)
      await carried.catch(() => undefined)
    },
  }
}

/** The limit for files of unknown length: files such as those in /proc report size 0 but have content. */
const UNSIZED_BYTES_MAX = 16 << 20

function sizesOf({ offset, length }: { offset?: number; length?: number }): { offset?: number; length?: number } {
  return { ...(offset === undefined ? {} : { offset }), ...(length === undefined ? {} : { length }) }
}

/** No bytes of the agent's headers are copied. `bytes` null: the length is unknown. */
function describe(file: IncomingMessage, part: Part): { size: number; bytes: number | null; headers: OutgoingHttpHeaders } {
  const size = countOf(file, 'x-file-size')
  const offset = part.kind === 'unsatisfiable' ? 0 : (part.offset ?? 0)
  const unsized = size === 0 && part.kind === 'query' && offset === 0 && file.headers['content-length'] !== '0'
  const bytes = unsized ? null : promisedBytes(file, part, size, offset)
  const revision = file.headers['x-file-revision']
  const headers: OutgoingHttpHeaders = {
    'content-type': 'application/octet-stream',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-file-size': size,
  }
  if (bytes !== null) headers['content-length'] = bytes
  if (typeof revision === 'string' && /^[0-9a-f]{64}$/.test(revision)) headers['x-file-revision'] = revision
  if (part.kind === 'range') headers['content-range'] = `bytes ${offset}-${offset + (bytes ?? 0) - 1}/${size}`
  return { size, bytes, headers }
}

function promisedBytes(file: IncomingMessage, part: Part, size: number, offset: number): number {
  const length = part.kind === 'unsatisfiable' ? 0 : (part.length ?? size)
  const bytes = Math.max(0, Math.min(length, size - offset))
  // An empty file is refused, or handled above.
  if (size === 0 || countOf(file, 'content-length') === bytes) return bytes
  file.destroy()
  throw new AgentFailure('nonsense', 'The agent announced another number of bytes than it was asked for')
}

function countOf(file: IncomingMessage, name: string): number {
  const text = file.headers[name]
  if (typeof text === 'string' && /^\d{1,15}$/.test(text)) return Number(text)
  file.destroy()
  throw new AgentFailure('nonsense', `The agent gave no ${name}`)
}
