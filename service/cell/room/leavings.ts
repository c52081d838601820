import type { Machine } from '../links/hostd.ts'

/** A machine that is about to give its room back. */
export interface Leaving extends Disposable {
  /** It could not be ended yet: it counts until the host has it no more. */
  linger(fence: number): void
}

interface Gone {
  memory_mib: number
  held: number
  since_ms: number
  /** Its machine, where it could not be ended. */
  lingers: number | null
}

/** A machine that leaves is waited for so long. Then others leave as well: its save or its end may take many minutes. */
const LEAVES_MS = 20_000

/** Machines that leave, and those that could not be ended yet. */
export interface Leavings {
  leave(workspace_id: string, size_mib: number): Leaving
  /** The host has these machines. @returns whether one lingers that it still has. */
  compare(machines: readonly Pick<Machine, 'subject' | 'fence'>[]): boolean
  /** @returns whether that machine was the last that its workspace waited for. */
  ended(workspace_id: string, fence: number): boolean
  /** Of those that are waited for. */
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

export function createLeavings({ now_ms, hasLeft, freed, doubt }: Heard): Leavings {
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
        linger(fence) {
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
        one.lingers = null // also where it is about to leave again: the end of that is told only of one that does not linger
        if (one.held === 0) forget(id)
      }
      return [...gone.values()].some(({ lingers, held }) => lingers !== null && held === 0)
    },
    ended(workspace_id, fence) {
      const one = gone.get(workspace_id)
      if (one?.lingers !== fence) return false
      one.lingers = null
      if (one.held > 0) return false // its end is told then
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
