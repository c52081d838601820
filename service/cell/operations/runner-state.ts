import type { KnownKind } from './begin.ts'
import type { OperationCapacityRequest } from './capacity-requests.ts'

export type Group = KnownKind['group'] | 'volume' | 'build' | 'startup'

/** The most jobs of each group. Start-ups have no limit, because they only wait for their guests. */
const GROUPS: Record<Group, number> = { start: 8, suspend: 4, delete: 8, volume: 4, build: 3, startup: Number.MAX_SAFE_INTEGER }
/** Time between passes. A lost notification delays an operation by at most this. */
const PASS_MS = 15_000
export const RETRY_MS_MIN = 100

interface RunningJob {
  group: Group
  organization_id: string
  done: Promise<void>
  moved: Promise<void>
}

export interface State {
  jobs: Map<string, RunningJob>
  /** Operations whose last attempt failed, with the time of the next attempt. */
  waiting: Map<string, { wait_ms: number; until_ms: number }>
  /** Requests of operations that capture before they wait for capacity. Released capacity is reserved for these requests, too. */
  ahead: Map<string, OperationCapacityRequest>
  /** For each waiting operation, the short resources that were last written to its row. */
  told: Map<string, string>
  deadline_at: Date | null
  /** True while operations wait for capacity or for a permit. */
  left_some: boolean
  draining: boolean
}

export function newState(): State {
  return { jobs: new Map(), waiting: new Map(), ahead: new Map(), told: new Map(), deadline_at: null, left_some: false, draining: false }
}

/** The time until the next pass. A retry that already runs is left out, because its end wakes the runner. */
export function nextPassMs(
  { jobs, waiting, deadline_at }: Pick<State, 'waiting' | 'deadline_at'> & { jobs: Map<string, unknown> },
  now: Date,
): number {
  const now_ms = performance.now()
  const repeats = [...waiting].flatMap(([id, { until_ms }]) => (jobs.has(id) ? [] : [until_ms - now_ms]))
  const deadlines = deadline_at === null ? [] : [deadline_at.getTime() - now.getTime()]
  return Math.max(Math.min(...repeats, ...deadlines, PASS_MS), RETRY_MS_MIN)
}

export interface PermitRequest {
  group: Group
  organization_id: string
}

type Groups = Partial<Record<Group, number>>

export function freePermits({ groups }: { groups?: Groups }, state: State, group: Group): number {
  return (groups?.[group] ?? GROUPS[group]) - countJobs(state, { group })
}

/** The last free permit is for an organization without a permit: the jobs of other organizations may run for hours. */
export function mayBegin(options: { groups?: Groups }, state: State, place: PermitRequest): boolean {
  const free = freePermits(options, state, place.group)
  return free > 1 || (free === 1 && countJobs(state, place) === 0)
}

/** Organizations with the fewest permits come first; their earlier waiting operations are counted as permits. Equals keep their order. */
export function inFairShares<T>(state: State, waiting: readonly T[], placeOf: (one: T) => PermitRequest | undefined): T[] {
  const counts = new Map<string, number>()
  const ranked = waiting.map((one) => {
    const place = placeOf(one)
    if (place === undefined) return { one, rank: 0 }
    const name = `${place.group} ${place.organization_id}`
    const rank = counts.get(name) ?? countJobs(state, place)
    counts.set(name, rank + 1)
    return { one, rank }
  })
  return ranked.sort((a, b) => a.rank - b.rank).map(({ one }) => one)
}

function countJobs({ jobs }: State, { group, organization_id }: Partial<PermitRequest>): number {
  const isOne = (job: RunningJob) => job.group === group && (organization_id ?? job.organization_id) === job.organization_id
  return [...jobs.values()].filter(isOne).length
}

export function isWaiting(state: State, operation_id: string): boolean {
  return (state.waiting.get(operation_id)?.until_ms ?? 0) > performance.now()
}

export function forgetLook(state: State): void {
  state.deadline_at = null
  state.left_some = false
}

export function forgetDone(state: State, open: { id: string }[]): void {
  const ids = new Set(open.map(({ id }) => id))
  for (const known of [state.waiting, state.told]) for (const id of known.keys()) if (!ids.has(id)) known.delete(id)
}

export function shownState({ jobs, waiting, ahead, left_some, draining }: State): object {
  const repeats = [...waiting].map(([id, { wait_ms, until_ms }]) => [id, [wait_ms, until_ms - performance.now()]] as const)
  const groups = [...jobs].map(([id, { group }]) => [id, group] as const)
  return { left_some, draining, jobs: Object.fromEntries(groups), repeats: Object.fromEntries(repeats), ahead: [...ahead.keys()] }
}
