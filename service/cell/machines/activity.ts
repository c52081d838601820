import type { Clock } from '../../lib/clock.ts'
import type { Activity } from './store.ts'
import type { ActivityKind } from './table.ts'

interface Use {
  calls: number
  streams: number
  active_at: Date
  tool_call_at: Date | null
  keepalive_until: Date | null
  unwritten: boolean
  /** Those who wait for the last call to end. */
  drained: Set<() => void>
}

/** Who uses which machine: counted in memory, written to the rows every few seconds. */
export interface ActivityLedger {
  touch(workspace_id: string, kind: ActivityKind): void
  keepalive(workspace_id: string, until: Date): void
  holdAwake(workspace_id: string, what: 'call' | 'stream'): Disposable
  /** Resolves when no call is in progress, or after the limit. */
  drained(workspace_id: string, limit_ms: number): Promise<void>
  inUse(workspace_id: string): boolean
  /** Last activity that this process saw. */
  lastActive(workspace_id: string): Date | undefined
  lastToolCall(workspace_id: string): Date | undefined
  /** What is not in the rows yet, with `put back` in case they cannot be written. */
  take(): { activity: Activity[]; putBack(): void }
}

export function createActivityLedger(clock: Clock): ActivityLedger {
  const uses = new Map<string, Use>()
  const useOf = (workspace_id: string): Use => {
    const known = uses.get(workspace_id)
    if (known) return known
    const use: Use = {
      calls: 0,
      streams: 0,
      active_at: clock.now(),
      tool_call_at: null,
      keepalive_until: null,
      unwritten: true,
      drained: new Set(),
    }
    uses.set(workspace_id, use)
    return use
  }
  const mark = (use: Use, tool_call: boolean) => {
    use.active_at = clock.now()
    if (tool_call) use.tool_call_at = use.active_at
    use.unwritten = true
  }
  return {
    touch: (workspace_id, kind) => mark(useOf(workspace_id), kind === 'tool_call'),
    keepalive(workspace_id, until) {
      const use = useOf(workspace_id)
      use.keepalive_until = until
      use.unwritten = true
    },
    holdAwake(workspace_id, what) {
      const use = useOf(workspace_id)
      const counter = what === 'call' ? 'calls' : 'streams'
      use[counter] += 1
      mark(use, false)
      let held = true
      return {
        [Symbol.dispose]() {
          if (!held) return
          held = false
          use[counter] -= 1
          mark(use, false)
          if (use.calls === 0) for (const wake of use.drained) wake()
        },
      }
    },
    async drained(workspace_id, limit_ms) {
      const use = uses.get(workspace_id)
      if (!use || use.calls === 0) return
      const { promise, resolve } = Promise.withResolvers<void>()
      const limit = setTimeout(resolve, limit_ms)
      use.drained.add(resolve)
      await promise
      clearTimeout(limit)
      use.drained.delete(resolve)
    },
    inUse(workspace_id) {
      const use = uses.get(workspace_id)
      return use !== undefined && use.calls + use.streams > 0
    },
    lastActive: (workspace_id) => uses.get(workspace_id)?.active_at,
    lastToolCall: (workspace_id) => uses.get(workspace_id)?.tool_call_at ?? undefined,
    take() {
      const taken = [...uses].filter(([, use]) => use.unwritten || use.calls + use.streams > 0)
      for (const [, use] of taken) {
        if (use.calls + use.streams > 0) use.active_at = clock.now()
        use.unwritten = false
      }
      const activity = taken.map(([workspace_id, { active_at, tool_call_at, keepalive_until }]) => ({
        workspace_id,
        active_at,
        tool_call_at,
        keepalive_until,
      }))
      forgetOld(uses)
      return {
        activity,
        putBack() {
          for (const [workspace_id, use] of taken) {
            use.unwritten = true
            uses.set(workspace_id, use)
          }
        },
      }
    },
  }
}

const USES_MAX = 10_000

/** What is written and idle can be read from the rows again; beyond the bound the oldest of it goes. */
function forgetOld(uses: Map<string, Use>): void {
  for (const [workspace_id, use] of uses) {
    if (uses.size <= USES_MAX) return
    if (!use.unwritten && use.calls + use.streams === 0 && use.drained.size === 0) uses.delete(workspace_id)
  }
}
