import { fail, type Failure } from '../../lib/fail.ts'
import type { AgentFailure } from '../host/agent-failure.ts'
import type { GoneReason } from '../machines/table.ts'
import { explain } from './ask.ts'
import type { CallLease } from '../admission/call-lease.ts'

/** The wait for a report of the machine's death: a killed machine breaks its connections shortly before its cell receives the report. */
const GONE_WAIT_MS = 1000

export async function explainBreak(ticket: CallLease, trouble: AgentFailure): Promise<Failure> {
  const { gone } = ticket.entry
  if (trouble.kind === 'cut') await goneWithin(gone, GONE_WAIT_MS)
  // Checked first, because the host reports a death before the workspace's row shows it.
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
