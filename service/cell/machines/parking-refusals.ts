import { fail, type Failure } from '../../lib/fail.ts'

const RETRY_SECONDS = 1
/** Room comes when something is suspended, parked or deleted. */
const FULL_RETRY_SECONDS = 5

/** Cell, "File, parking and host reasons". */
export function wakeFailed(cause?: unknown): Failure {
  return fail('service_unavailable', 'wake_failed', 'The workspace could not be woken', { retry_after_seconds: RETRY_SECONDS, cause })
}

export function hostFull(cause?: unknown): Failure {
  const message = 'The host has no room to wake the workspace now'
  return fail('service_unavailable', 'host_capacity', message, { retry_after_seconds: FULL_RETRY_SECONDS, cause })
}

export function takenOver(cause?: unknown): Failure {
  return fail('workspace_busy', 'workspace_fenced', 'A lifecycle operation is taking the workspace over', { cause })
}
