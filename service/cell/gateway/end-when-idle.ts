import type { IncomingMessage, ServerResponse } from 'node:http'
import { AgentFailure } from '../host/agent-failure.ts'
import type { CallLease } from '../admission/call-lease.ts'

/** Ends an answer whose agent stops sending while the reader waits. A guest that is paused for a checkpoint is not ended. */
export function endWhenIdle(sent: IncomingMessage, reader: ServerResponse, ticket: CallLease, idle_ms: number): void {
  if (sent.complete || sent.destroyed) return
  const { socket } = sent
  let read = socket.bytesRead
  const watch = setInterval(() => {
    const is_wanted = reader.writableLength === 0 && !ticket.held()
    if (is_wanted && socket.bytesRead === read) sent.destroy(new AgentFailure('silent', 'The agent stopped in the middle'))
    read = socket.bytesRead
  }, idle_ms)
  sent.once('close', () => clearInterval(watch))
}
