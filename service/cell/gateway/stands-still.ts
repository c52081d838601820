import type { IncomingMessage, ServerResponse } from 'node:http'
import { AgentTrouble } from '../links/agent-trouble.ts'
import type { Ticket } from './gate/ticket.ts'

/**
 * Breaks off what an agent sends as it comes, when nothing of it comes although its reader waits. A guest that stands still for a
 * checkpoint is waited for.
 */
export function endWhenIdle(sent: IncomingMessage, reader: ServerResponse, ticket: Ticket, idle_ms: number): void {
  if (sent.complete || sent.destroyed) return
  const { socket } = sent
  let read = socket.bytesRead
  const watch = setInterval(() => {
    const is_wanted = reader.writableLength === 0 && !ticket.held()
    if (is_wanted && socket.bytesRead === read) sent.destroy(new AgentTrouble('silent', 'The agent stopped in the middle'))
    read = socket.bytesRead
  }, idle_ms)
  sent.once('close', () => clearInterval(watch))
}
