import { LIMITS } from '../../../contract/limits.ts'
import { sourceOf } from '../../http/source.ts'
import { fail } from '../../lib/fail.ts'
import { createFairSemaphore } from '../../lib/bounded.ts'

/** Queues checks of signatures by address, so that a sender of forged tokens waits behind its own checks. */
export interface Signatures {
  /**
   * Calls with the same token share one check.
   * @param address of the peer; all callers behind one proxy share its queue
   * @throws rate_limited if too many wait already
   */
  check(token: string, address: string, check: () => Promise<boolean>): Promise<boolean>
  waiting(): number
}

export interface SignatureLimits {
  at_once: number
  waiting_per_address: number
  waiting: number
}

/** Two checks at once leave half of Node's thread pool to file and name lookups. */
const LIMITS_OF_A_GATEWAY: SignatureLimits = {
  at_once: LIMITS.credential.signatures_at_once_max,
  waiting_per_address: LIMITS.credential.signatures_waiting_per_address_max,
  waiting: LIMITS.credential.signatures_waiting_max,
}

export function createSignatures({ at_once, waiting_per_address, waiting } = LIMITS_OF_A_GATEWAY): Signatures {
  const line = createFairSemaphore({ at_once, waiting_per_name: waiting_per_address, waiting }, tooMany)
  const checks = new Map<string, Promise<boolean>>()
  return {
    check(token, address, check) {
      const known = checks.get(token)
      if (known !== undefined) return known
      const checked = line.run(sourceOf(address), check).finally(() => checks.delete(token))
      checks.set(token, checked)
      return checked
    },
    waiting: () => line.waiting(),
  }
}

function tooMany() {
  return fail('rate_limited', null, 'Too many tokens wait to be checked', {
    retry_after_seconds: LIMITS.tool_call.resource_limit_retry_seconds,
  })
}
