import { BerthError, ConnectionError, DeadlineError } from './errors.ts'

/**
 * What repeating a request would do. `read`: nothing. `keyed`: nothing more, since the service knows it again by a key or an id of the
 * caller's. `once`: perhaps the same change again.
 */
export type Repeats = 'read' | 'keyed' | 'once'

/** With these a gateway says that it did not execute the call. */
const NEVER_EXECUTED = ['stale_epoch', 'workspace_not_running', 'workspace_busy', 'service_unavailable']
/** A short wait changes nothing: somebody must make room, or the lock of the second factor must end. */
const LASTING_REASONS = ['disk_full', 'mfa_locked']
const RETRYABLE_STATUS = [429, 502, 503, 504]
/** After a repair (a new token, a woken workspace) a request is sent again at once, so many times. Then it waits like every other. */
export const IMMEDIATE_REPEATS_MAX = 4
/** The longest time that a timer takes. */
export const FOREVER_MS = 2 ** 31 - 1
const FIRST_WAIT_MS = 100
const LONGEST_WAIT_MS = 10_000

/** Whether the same request is sent again after this. */
export function mayRepeat(error: unknown, repeats: Repeats): boolean {
  if (!(error instanceof BerthError) || error instanceof DeadlineError) return false
  if (LASTING_REASONS.includes(error.reason ?? '')) return false
  // A refusal has the words of a gateway; a proxy's has none, and may have passed the request on.
  if (repeats === 'once') return error.requestId !== null && NEVER_EXECUTED.includes(error.code)
  // What was begun is found again by its key.
  if (error.reason === 'operation_interrupted') return repeats === 'keyed'
  return error instanceof ConnectionError || error.retryable || RETRYABLE_STATUS.includes(error.status)
}

/** How long to wait before the next attempt. At least what the server asks for. */
export function waitBefore(attempt: number, retry_after_ms: number | null, random = Math.random): number {
  const most = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt)
  return Math.max(retry_after_ms ?? 0, most / 2 + (random() * most) / 2)
}

/** The end of what a caller waits for: a signal of their own, and a time. */
export interface Deadline {
  signal: AbortSignal
  /** Milliseconds that are left. */
  left(): number
}

export function deadlineOf(signal: AbortSignal | undefined, timeout_ms: number): Deadline {
  const ends_at = performance.now() + timeout_ms
  const timeout = AbortSignal.timeout(Math.min(timeout_ms, 2 ** 31 - 1))
  return { signal: signal ? AbortSignal.any([signal, timeout]) : timeout, left: () => ends_at - performance.now() }
}

/** What a caller is told when the signal of a deadline ended something: their own reason, or that the time is over. */
export function endedBy({ signal }: Deadline): unknown {
  const reason: unknown = signal.reason
  if (reason instanceof DOMException && reason.name === 'TimeoutError') return new DeadlineError('The time for this call is over')
  return reason
}

/** Resolves after so long; throws when the deadline ends before. */
export function pause(ms: number, deadline: Deadline): Promise<void> {
  const { signal } = deadline
  return new Promise((resolve, reject) => {
    const ended = () => {
      clearTimeout(timer)
      // The caller's own reason, whatever it is.
      // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors
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
