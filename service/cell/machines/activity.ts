import type { Clock } from '../../lib/clock.ts'
import type { Activity } from './store.ts'
import type { ActivityKind } from './table.ts'

/** A call or a stream in progress. */
export interface ActivityRef {
  what: 'call' | 'stream'
  since: Date
  route: string | null
  session_id: string | null
}

export interface ObservedUse {
  active_at: Date
  tool_call_at: Date | null
  /** Oldest first. */
  holds: readonly ActivityRef[]
}

/** Identifies a call when a caller asks what keeps the workspace awake. */
export type ActivitySource = Pick<ActivityRef, 'route' | 'session_id'>

interface Use {
  calls: number
  holds: Set<ActivityRef>
  active_at: Date
  tool_call_at: Date | null
  keepalive_until: Date | null
  unwritten: boolean
  drained: Set<() => void>
}

/** Counts the use of machines in memory. A timer writes the counts to the workspace rows every few seconds. */
export interface ActivityLedger {
  touch(workspace_id: string, kind: ActivityKind): void
  keepalive(workspace_id: string, until: Date): void
  holdAwake(workspace_id: string, what: 'call' | 'stream', holder?: ActivitySource): Disposable
  /** Resolves when no call is in progress, or after the limit. */
  drained(workspace_id: string, limit_ms: number): Promise<void>
  inUse(workspace_id: string): boolean
  /** undefined: this process observed no activity. */
  lastActive(workspace_id: string): Date | undefined
  lastToolCall(workspace_id: string): Date | undefined
  seen(workspace_id: string): ObservedUse | undefined
  /** Removes and returns the activity that is not in the rows yet. A caller that cannot write the activity must call `putBack`. */
  take(): { activity: Activity[]; putBack(): void }
}

interface LedgerState {
  readonly clock: Clock
  /** Use of each workspace, oldest entry first. */
  readonly uses: Map<string, Use>
}

export function createActivityLedger(clock: Clock): ActivityLedger {
  const state: LedgerState = { clock, uses: new Map() }
  const { uses } = state
  return {
    touch: (workspace_id, kind) => mark(state, useOf(state, workspace_id), kind === 'tool_call'),
    keepalive: (workspace_id, until) => keepalive(state, workspace_id, until),
    holdAwake: (workspace_id, what, source) => holdAwake(state, workspace_id, what, source),
    drained: (workspace_id, limit_ms) => drained(state, workspace_id, limit_ms),
    inUse: (workspace_id) => (uses.get(workspace_id)?.holds.size ?? 0) > 0,
    lastActive: (workspace_id) => uses.get(workspace_id)?.active_at,
    lastToolCall: (workspace_id) => uses.get(workspace_id)?.tool_call_at ?? undefined,
    seen: (workspace_id) => seen(state, workspace_id),
    take: () => take(state),
  }
}

function useOf({ clock, uses }: LedgerState, workspace_id: string): Use {
  const known = uses.get(workspace_id)
  if (known) return known
  const use: Use = {
    calls: 0,
    holds: new Set(),
    active_at: clock.now(),
    tool_call_at: null,
    keepalive_until: null,
    unwritten: true,
    drained: new Set(),
  }
  uses.set(workspace_id, use)
  return use
}

function mark({ clock }: LedgerState, use: Use, tool_call: boolean): void {
  use.active_at = clock.now()
  if (tool_call) use.tool_call_at = use.active_at
  use.unwritten = true
}

function keepalive(state: LedgerState, workspace_id: string, until: Date): void {
  const use = useOf(state, workspace_id)
  use.keepalive_until = until
  use.unwritten = true
}

const NO_SOURCE: ActivitySource = { route: null, session_id: null }

function holdAwake(state: LedgerState, workspace_id: string, what: 'call' | 'stream', source = NO_SOURCE): Disposable {
  const use = useOf(state, workspace_id)
  mark(state, use, false)
  const hold = { what, since: use.active_at, route: source.route, session_id: source.session_id }
  const calls = what === 'call' ? 1 : 0
  use.holds.add(hold)
  use.calls += calls
  return {
    [Symbol.dispose]() {
      if (!use.holds.delete(hold)) return
      use.calls -= calls
      mark(state, use, false)
      if (use.calls === 0) for (const wake of use.drained) wake()
    },
  }
}

async function drained({ uses }: LedgerState, workspace_id: string, limit_ms: number): Promise<void> {
  const use = uses.get(workspace_id)
  if (!use || use.calls === 0) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const limit = setTimeout(resolve, limit_ms)
  use.drained.add(resolve)
  await promise
  clearTimeout(limit)
  use.drained.delete(resolve)
}

function seen({ uses }: LedgerState, workspace_id: string): ObservedUse | undefined {
  const use = uses.get(workspace_id)
  return use && { active_at: use.active_at, tool_call_at: use.tool_call_at, holds: [...use.holds] }
}

function take({ clock, uses }: LedgerState): ReturnType<ActivityLedger['take']> {
  const taken = [...uses].filter(([, use]) => use.unwritten || use.holds.size > 0)
  for (const [, use] of taken) {
    if (use.holds.size > 0) use.active_at = clock.now()
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
}

const USES_MAX = 10_000

/** Removes the oldest entries beyond the bound that are written and idle. The rows hold their values, so they can be read again. */
function forgetOld(uses: Map<string, Use>): void {
  for (const [workspace_id, use] of uses) {
    if (uses.size <= USES_MAX) return
    if (!use.unwritten && use.holds.size === 0 && use.drained.size === 0) uses.delete(workspace_id)
  }
}
