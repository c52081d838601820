import { BerthError, ConnectionError, DeadlineError } from './errors.ts'

/**
 * Effect of a repeated request. `read`: none. `keyed`: none, since the service recognises a key or id of the caller. `once`: it may make
 * the change again.
 */
export type Repeats = 'read' | 'keyed' | 'once'

/** Codes of a gateway that did not execute the call. */
const NEVER_EXECUTED = ['stale_epoch', 'workspace_not_running', 'workspace_busy', 'service_unavailable']
/** Reasons that a short wait does not remove: a full disk, or a locked second factor. */
const LASTING_REASONS = ['disk_full', 'mfa_locked']
const RETRYABLE_STATUS = [429, 502, 503, 504]
/** Immediate retries after a repair (a new token, a woken workspace). Later ones wait as usual. */
export const IMMEDIATE_REPEATS_MAX = 4
/** The longest delay that a timer accepts. */
export const FOREVER_MS = 2 ** 31 - 1
const FIRST_WAIT_MS = 100
const LONGEST_WAIT_MS = 10_000

export function mayRepeat(error: unknown, repeats: Repeats): boolean {
  if (!(error instanceof BerthError) || error instanceof DeadlineError) return false
  if (LASTING_REASONS.includes(error.reason ?? '')) return false
  // A proxy's refusal has no request id, and the proxy may have passed the request on.
  if (repeats === 'once') return error.requestId !== null && NEVER_EXECUTED.includes(error.code)
  // The key finds the interrupted operation again.
  if (error.reason === 'operation_interrupted') return repeats === 'keyed'
  return error instanceof ConnectionError || error.retryable || RETRYABLE_STATUS.includes(error.status)
}

/** Returns the delay before the next attempt, in milliseconds; at least the server's Retry-After. */
export function waitBefore(attempt: number, retry_after_ms: number | null, random = Math.random): number {
  const most = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt)
  return Math.max(retry_after_ms ?? 0, most / 2 + (random() * most) / 2)
}

/** End of a caller's wait: the caller's signal, and a time limit. */
export interface Deadline {
  signal: AbortSignal
  /** Milliseconds left. */
  left(): number
}

export function deadlineOf(signal: AbortSignal | undefined, timeout_ms: number): Deadline {
  const ends_at = performance.now() + timeout_ms
  const timeout = AbortSignal.timeout(Math.min(timeout_ms, 2 ** 31 - 1))
  return { signal: signal ? AbortSignal.any([signal, timeout]) : timeout, left: () => ends_at - performance.now() }
}

/** Returns the error for an ended deadline: the caller's own reason, or a DeadlineError. */
export function endedBy({ signal }: Deadline): unknown {
  const reason: unknown = signal.reason
  if (reason instanceof DOMException && reason.name === 'TimeoutError') return new DeadlineError('The time for this call is over')
  return reason
}

/** Resolves after `ms`; rejects when the deadline ends first. */
export function pause(ms: number, deadline: Deadline): Promise<void> {
  const { signal } = deadline
  return new Promise((resolve, reject) => {
    const ended = () => {
      clearTimeout(timer)
      // Rejects with the caller's own reason, of any type.
      // oxlint-disable-next-line typescript/prefer-promise-reject-errors
      reject(endedBy(deadline))
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', ended)
      resolve()
    }, ms)
    if (signal.aborted) ended()
    else signal.addEventListener('abort', ended, { once: true })
  })
}
