/** A refusal expires after this time. Retries of an operation or wake come more often and renew it. */
const REFUSED_MS = 5000
/** Machines are evicted only for a refusal that lasts longer. A reconcile pass may end orphans first, which the ledger does not count. */
const REFUSED_AFTER_MS = 3000

/** Requests that the host refused although they fit by the ledger. */
export interface Refusals {
  note(id: string, size_mib: number): void
  /** Memory that must still be evicted for lasting refusals. */
  left_mib(): number
  hasLeft(memory_mib: number): void
  state(): object
}

export function createRefusals(now_ms: () => number): Refusals {
  const refusals = new Map<string, { left_mib: number; since_ms: number; until_ms: number }>()
  return {
    note(id, size_mib) {
      const { left_mib = 0, since_ms = now_ms() } = refusals.get(id) ?? {}
      refusals.set(id, { left_mib: left_mib > 0 ? left_mib : size_mib, since_ms, until_ms: now_ms() + REFUSED_MS })
    },
    left_mib() {
      for (const [id, { until_ms }] of refusals) if (until_ms < now_ms()) refusals.delete(id)
      const lasting = [...refusals.values()].filter(({ since_ms }) => now_ms() - since_ms >= REFUSED_AFTER_MS)
      return lasting.reduce((sum, { left_mib }) => sum + left_mib, 0)
    },
    hasLeft(memory_mib) {
      for (const one of refusals.values()) one.left_mib = Math.max(one.left_mib - memory_mib, 0)
    },
    state: () => Object.fromEntries(refusals),
  }
}
