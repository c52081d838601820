import type { Machine } from '../../../contract/internal/host-inventory.ts'

/** A machine that is about to release its capacity. */
export interface Drain extends Disposable {
  /** The machine could not be stopped. Its memory remains charged until the host no longer has the machine. */
  markPendingExit(fence: number): void
}

interface Gone {
  memory_mib: number
  held: number
  since_ms: number
  /** Fence of the machine that could not be stopped; null: none. */
  lingers: number | null
}

/**
 * For this time, draining memory counts as free soon. Afterwards other machines are evicted too, because a save or a stop may take
 * minutes.
 */
const LEAVES_MS = 20_000

/** Machines that drain, and machines that could not be stopped yet. */
export interface DrainingMachines {
  leave(workspace_id: string, size_mib: number): Drain
  /** Compares with the machines on the host. @returns whether the host still has a machine that could not be stopped. */
  compare(machines: readonly Pick<Machine, 'subject' | 'fence'>[]): boolean
  /** @returns whether this released the workspace's memory. */
  ended(workspace_id: string, fence: number): boolean
  /** Memory of machines that began to drain within `LEAVES_MS`. */
  soon_mib(): number
  ids(): string[]
  state(): object
}

interface Heard {
  now_ms: () => number
  hasLeft(memory_mib: number): void
  freed(): void
  doubt(): void
}

export function createDrainingMachines({ now_ms, hasLeft, freed, doubt }: Heard): DrainingMachines {
  const gone = new Map<string, Gone>()
  const forget = (workspace_id: string) => {
    hasLeft(gone.get(workspace_id)?.memory_mib ?? 0)
    gone.delete(workspace_id)
  }
  return {
    leave(workspace_id, size_mib) {
      const known = gone.get(workspace_id) ?? { memory_mib: size_mib, held: 0, lingers: null, since_ms: 0 }
      if (known.held === 0 && known.lingers === null) known.since_ms = now_ms()
      known.held += 1
      gone.set(workspace_id, known)
      let held = true
      return {
        markPendingExit(fence) {
          known.lingers = fence
          doubt()
        },
        [Symbol.dispose]() {
          if (!held) return
          held = false
          known.held -= 1
          if (known.held > 0 || known.lingers !== null) return
          forget(workspace_id)
          freed()
        },
      }
    },
    compare(machines) {
      const there = new Map(machines.map(({ subject, fence }) => [subject.id, fence]))
      for (const [id, one] of gone) {
        if (one.lingers === null || there.get(id) === one.lingers) continue
        // Cleared also while the machine drains again: disposing releases memory only if `lingers` is null.
        one.lingers = null
        if (one.held === 0) forget(id)
      }
      return [...gone.values()].some(({ lingers, held }) => lingers !== null && held === 0)
    },
    ended(workspace_id, fence) {
      const one = gone.get(workspace_id)
      if (one?.lingers !== fence) return false
      one.lingers = null
      if (one.held > 0) return false // the last dispose releases the memory
      forget(workspace_id)
      return true
    },
    soon_mib() {
      const soon = [...gone.values()].filter(({ since_ms }) => now_ms() - since_ms < LEAVES_MS)
      return soon.reduce((sum, { memory_mib }) => sum + memory_mib, 0)
    },
    ids: () => [...gone.keys()],
    state: () => Object.fromEntries(gone),
  }
}
