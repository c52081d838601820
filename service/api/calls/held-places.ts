import { LIMITS } from '../../../contract/limits.ts'
import type { Arrival, Principal } from '../../http/call.ts'
import { waitSeconds } from '../../http/headers.ts'
import { createKeyedCounts } from '../../lib/bounded.ts'
import { fail } from '../../lib/fail.ts'

/** Permit that a waiting call holds until its answer ends. */
export type WaitPermit = Disposable | undefined

/** Limits concurrent `Prefer: wait` calls: each holds a connection and memory. */
export interface WaitPermits {
  /** Acquires a permit for a waiting call, or refuses the call before any work. Disposing releases the permit. */
  acquire(arrival: Arrival, who: Principal): WaitPermit
}

export interface WaitPermitLimits {
  all: number
  per_principal: number
}

const LIMITS_OF_A_PROCESS: WaitPermitLimits = { all: LIMITS.wait.held_calls_max, per_principal: LIMITS.wait.held_calls_per_principal_max }
const RETRY_SECONDS = 1

export function createWaitPermits(limits = LIMITS_OF_A_PROCESS): WaitPermits {
  const held = createKeyedCounts()
  return {
    acquire({ route, headers }, { id }) {
      if (!route.waits || waitSeconds(headers) === 0) return undefined
      if (held.of(id) >= limits.per_principal) {
        throw fail('rate_limited', null, 'Too many of your calls are held at once', { retry_after_seconds: RETRY_SECONDS })
      }
      if (held.total() >= limits.all) {
        throw fail('dependency_unavailable', null, 'Too many calls are held at once', { retry_after_seconds: RETRY_SECONDS })
      }
      return held.take(id)
    },
  }
}
