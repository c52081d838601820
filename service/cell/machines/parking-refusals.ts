import { fail, type Failure } from '../../lib/fail.ts'
import { HostFailure } from '../host/hostd.ts'
import { refusedMemory, WAY_OUT } from '../host/memory-refusal.ts'

const RETRY_SECONDS = 1
/** Memory that the engine refuses cannot be restored until an operator acts. */
const REFUSED_RETRY_SECONDS = 60
const FULL_RETRY_SECONDS = 5

/** The refusal of a failed wake (Cell, "File, parking and host reasons"). */
export function wakeFailed(cause?: unknown): Failure {
  const memory = cause instanceof HostFailure ? refusedMemory(cause) : undefined
  if (memory === undefined) {
    return fail('service_unavailable', 'wake_failed', 'The workspace could not be woken', { retry_after_seconds: RETRY_SECONDS, cause })
  }
  const { why, because, checkpoint_id, without_memory } = memory
  const message = `The workspace could not be woken, its memory cannot be restored: ${because}${without_memory ? `; ${WAY_OUT}` : ''}`
  const details = { memory_refused: why, checkpoint_id, without_memory }
  return fail('service_unavailable', 'wake_failed', message, { retry_after_seconds: REFUSED_RETRY_SECONDS, details, cause })
}

export function hostFull(cause?: unknown): Failure {
  const message = 'The host has no room to wake the workspace now'
  return fail('service_unavailable', 'host_capacity', message, { retry_after_seconds: FULL_RETRY_SECONDS, cause })
}

export function takenOver(cause?: unknown): Failure {
  return fail('workspace_busy', 'workspace_fenced', 'A lifecycle operation is taking the workspace over', { cause })
}
