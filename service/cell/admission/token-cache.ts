import { hash } from 'node:crypto'
import type { ToolCaller } from '../../http/call.ts'

/** Contains immutable facts only: every call checks revocation, epoch and time again. */
export interface TokenCache {
  get(token: string): ToolCaller | undefined
  set(token: string, caller: ToolCaller): void
}

export const VERDICTS_MAX = 20_000

export function createTokenCache(verdicts_max = VERDICTS_MAX): TokenCache {
  const kept = new Map<string, ToolCaller>() // least recently used first
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

/** A digest, so that a memory dump of the map reveals no credentials. */
function keyOf(token: string): string {
  return hash('sha256', token, 'base64')
}
