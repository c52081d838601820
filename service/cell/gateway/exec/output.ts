import type { ServerResponse } from 'node:http'
import type { execOutput } from '../../../../contract/routes/cell/exec.ts'
import { Failure } from '../../../lib/fail.ts'
import { callAgent } from '../ask.ts'
import { startStream } from '../relay-events.ts'
import type { GatewayHandler } from '../handler.ts'
import { encodingFor, type EventEncoding } from './event-encoding.ts'
import { followOutput } from './follow.ts'

export const readOutput: GatewayHandler<typeof execOutput> = async (call, _deps, ticket) => {
  const { stdout_offset = 0, stderr_offset = 0, follow = true } = call.query
  const from = { stdout_offset, stderr_offset, follow }
  const encoding = encodingFor(call.headers.accept)
  try {
    const frames = await callAgent(ticket, 'read', call, (bounds) => ticket.agent.openOutput(call.params.session_id, from, bounds))
    return { stream: (response) => followOutput({ frames, from, response, encoding, ticket, request_id: call.request_id }) }
  } catch (error) {
    if (!(error instanceof Failure) || error.reason !== 'output_expired') throw error
    return { stream: (response) => answerExpired(response, encoding, error, call.request_id) }
  }
}

/** The refusal is sent as an event of the stream, which followers handle like any other event. */
async function answerExpired(response: ServerResponse, encoding: EventEncoding, expired: Failure, request_id: string): Promise<void> {
  startStream(response, encoding)
  response.end(encoding.error(expired, request_id))
}
