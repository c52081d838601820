import { fail, type Failure } from '../../lib/fail.ts'
import type { AgentTrouble } from '../links/agent-trouble.ts'
import type { GoneReason } from '../machines/table.ts'
import { explain } from './ask.ts'
import type { Ticket } from './gate/ticket.ts'

/** A machine that is killed breaks its connections a moment before its cell has heard of it. */
const GONE_WAIT_MS = 1000

/** Why a stream broke off, as its reader is told. */
export async function explainBreak(ticket: Ticket, trouble: AgentTrouble): Promise<Failure> {
  const { gone } = ticket.entry
  if (trouble.kind === 'cut') await goneWithin(gone, GONE_WAIT_MS)
  // The workspace's row says so a moment later than the host.
  const is_dead = gone.aborted && (gone.reason as GoneReason) === 'died'
  if (is_dead) return fail('workspace_not_running', null, 'The machine of the workspace was killed')
  return explain(ticket, 'read', trouble).catch(unexpected)
}

export function unexpected(cause: unknown): Failure {
  return fail('internal_error', null, 'The stream met an unexpected error', { cause })
}

function goneWithin(gone: AbortSignal, wait_ms: number): Promise<void> {
  return new Promise((resolve) => {
    if (gone.aborted) return resolve()
    const end = () => {
      clearTimeout(timer)
      gone.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, wait_ms)
    gone.addEventListener('abort', end)
  })
}
