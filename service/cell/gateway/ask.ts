import type { Call } from '../../http/call.ts'
import { fail, type Failure } from '../../lib/fail.ts'
import type { CallBounds } from '../host/agent-answer.ts'
import { AgentFailure, type AgentFailureKind } from '../host/agent-failure.ts'
import type { CallLease } from '../admission/call-lease.ts'
import { crowded } from '../admission/crowded.ts'

/** `read` is repeatable. A `change` may have happened even if its answer is lost. */
export type Asking = 'read' | 'change'

type Started = { session_id: string }
type Asker = Pick<Call, 'signal'>

/** @param details help the caller to find out the result of a lost call */
export async function callAgent<T>(
  ticket: CallLease,
  asking: Asking,
  { signal }: Asker,
  asked: (bounds: CallBounds) => Promise<T>,
  details?: Started,
): Promise<T> {
  try {
    return await asked({ signal, room: ticket.room })
  } catch (error) {
    throw error instanceof AgentFailure ? await explain(ticket, asking, error, details) : error
  }
}

/** Reports a change of the workspace rather than the broken connection that it caused. */
export async function explain(ticket: CallLease, asking: Asking, trouble: AgentFailure, details?: Started): Promise<Failure> {
  if (trouble.kind === 'nonsense') return fail('internal_error', null, 'The machine gave an answer that makes no sense', { cause: trouble })
  const unexecuted = trouble.kind === 'unreachable' || asking === 'read'
  const refused = unexecuted ? await ticket.refusedBy() : null
  return refused ?? plainly(trouble.kind, asking, { cause: trouble, ...(details ? { details } : {}) })
}

function plainly(
  kind: Exclude<AgentFailureKind, 'nonsense'>,
  asking: Asking,
  options: { cause: AgentFailure; details?: Started },
): Failure {
  if (kind === 'crowded' && asking === 'read') return crowded()
  if (kind === 'silent') return fail('timeout', null, 'The workspace did not answer in time', options)
  if ((kind === 'cut' || kind === 'crowded') && asking === 'change') {
    return fail(
      'conflict',
      'operation_interrupted',
      'The connection to the machine broke: whether the call was executed is not known',
      options,
    )
  }
  return fail('dependency_unavailable', null, 'The machine cannot be reached at the moment', { retry_after_seconds: 1, ...options })
}
