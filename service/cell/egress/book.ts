import type { Said } from './store.ts'

/** The machines of this process's host and what their packets meet, from the moment in which the host has told of them. */
export interface EgressBook {
  get(workspace_id: string): Said | undefined
  all(): Said[]
  /** As the host says. What it said of an earlier machine is passed over. */
  put(said: Said): void
  /** The machine has ended. */
  drop(workspace_id: string): void
  /** Of those that a whole inventory has not named twice in a row: one that is started meanwhile is in the next. */
  dropMissing(present: ReadonlySet<string>): void
  /** A machine is on its way, with a policy that was read before. */
  starting(workspace_id: string): Disposable
  /** It meets another policy than was read for it: its start had been asked for before. */
  stale(workspace_id: string): void
  /** The newest of those who ask is told. */
  onStale(told: (workspace_id: string) => void): void
  /** Resolves when none is on its way. */
  started(workspace_id: string): Promise<void>
}

export function createEgressBook(): EgressBook {
  const machines = new Map<string, Said>()
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
