import { hash } from 'node:crypto'
import type { ToolCaller } from '../../../http/call.ts'

/**
 * Remembers whose token it is, so that a signature is verified once in a token's life. Only what cannot change is kept:
 * revocation, epoch and time are asked at every call.
 */
export interface Verdicts {
  get(token: string): ToolCaller | undefined
  set(token: string, caller: ToolCaller): void
}

export const VERDICTS_MAX = 20_000

export function createVerdicts(verdicts_max = VERDICTS_MAX): Verdicts {
  const kept = new Map<string, ToolCaller>() // in order of use, the longest unused first
  return {
    get(token) {
      const key = keyOf(token)
      const caller = kept.get(key)
      if (caller === undefined) return undefined
      kept.delete(key)
      kept.set(key, caller)
      return caller
    },
    set(token, caller) {
      kept.set(keyOf(token), caller)
      if (kept.size <= verdicts_max) return
      const [oldest] = kept.keys()
      if (oldest !== undefined) kept.delete(oldest)
    },
  }
}

/** Not the token itself: a memory dump of this map must not be a bag of credentials. */
function keyOf(token: string): string {
  return hash('sha256', token, 'base64')
}
