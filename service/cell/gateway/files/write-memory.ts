import type { WriteResult } from '../../../../contract/schemas/cell/file.ts'
import type { Failure } from '../../../lib/fail.ts'

/** What became of a write under an Idempotency-Key. */
export type Outcome = { kind: 'written'; sha256: string; result: WriteResult } | { kind: 'interrupted'; failure: Failure }

/**
 * Remembers acknowledged writes by workspace and key, so that a repeat is answered and not written again. In memory and
 * bounded: after a restart of the gateway, or ENTRIES_MAX other writes, a repeat writes again (the same bytes to the same file).
 */
export interface WriteMemory {
  /**
   * Runs `write` unless this key has an outcome, or is getting one, for which to wait. A write that throws has none.
   * @returns the outcome, with the request that it belongs to.
   */
  once(name: string, request: string, write: () => Promise<Outcome>): Promise<{ request: string; outcome: Outcome; ran: boolean }>
}

const ENTRIES_MAX = 10_000

export function createWriteMemory(entries_max = ENTRIES_MAX): WriteMemory {
  const entries = new Map<string, { request: string; outcome: Promise<Outcome | null> }>()
  return {
    async once(name, request, write) {
      for (let known = entries.get(name); known !== undefined; known = entries.get(name)) {
        const outcome = await known.outcome
        if (outcome !== null) return { request: known.request, outcome, ran: false }
      }
      const running = Promise.withResolvers<Outcome | null>()
      entries.set(name, { request, outcome: running.promise })
      forgetOldest(entries, entries_max)
      try {
        const outcome = await write()
        running.resolve(outcome)
        return { request, outcome, ran: true }
      } catch (error) {
        entries.delete(name) // nothing was written: whoever comes next tries again
        running.resolve(null)
        throw error
      }
    },
  }
}

function forgetOldest(entries: Map<string, unknown>, entries_max: number): void {
  if (entries.size <= entries_max) return
  const [oldest] = entries.keys()
  if (oldest !== undefined) entries.delete(oldest)
}
