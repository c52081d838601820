import type { ReportedPolicy } from './store.ts'

export interface ObservedPolicies {
  get(workspace_id: string): ReportedPolicy | undefined
  all(): ReportedPolicy[]
  put(said: ReportedPolicy): void
  drop(workspace_id: string): void
  /** Drops machines that are missing in two inventories in a row. One is not enough, because a machine may start during the inventory. */
  dropMissing(present: ReadonlySet<string>): void
  /** While a machine starts, its policy may be older than a concurrent change. */
  starting(workspace_id: string): Disposable
  stale(workspace_id: string): void
  /** Only the newest listener is called. */
  onStale(told: (workspace_id: string) => void): void
  started(workspace_id: string): Promise<void>
}

export function createObservedPolicies(): ObservedPolicies {
  const machines = new Map<string, ReportedPolicy>()
  const missing = new Set<string>()
  const coming = new Map<string, Set<PromiseWithResolvers<void>>>()
  let tell = (_workspace_id: string): void => undefined
  return {
    get: (workspace_id) => machines.get(workspace_id),
    all: () => [...machines.values()],
    put(said) {
      missing.delete(said.workspace_id)
      if ((machines.get(said.workspace_id)?.fence ?? 0) <= said.fence) machines.set(said.workspace_id, said)
    },
    drop: (workspace_id) => void machines.delete(workspace_id),
    dropMissing(present) {
      const absent = [...machines.keys()].filter((id) => !present.has(id))
      for (const id of absent) if (missing.has(id)) machines.delete(id)
      missing.clear()
      for (const id of absent) if (machines.has(id)) missing.add(id)
    },
    starting(workspace_id) {
      const own = Promise.withResolvers<void>()
      const others = coming.get(workspace_id) ?? new Set()
      coming.set(workspace_id, others.add(own))
      return {
        [Symbol.dispose]() {
          others.delete(own)
          if (others.size === 0 && coming.get(workspace_id) === others) coming.delete(workspace_id)
          own.resolve()
        },
      }
    },
    stale: (workspace_id) => tell(workspace_id),
    onStale(told) {
      tell = told
    },
    async started(workspace_id) {
      for (let own = coming.get(workspace_id); own !== undefined; own = coming.get(workspace_id)) {
        await Promise.all([...own].map(({ promise }) => promise))
      }
    },
  }
}
