import type { HostCapacity } from '../../../contract/internal/host-inventory.ts'
import type { MachineMetrics } from './parking-moves.ts'
import type { Ids } from '../../lib/ids.ts'
import type { CapacityAllocator } from '../capacity/allocator.ts'
import { diskEvictor } from './disk-eviction.ts'
import { comingMib, evictionFacts, mayLeave, memoryOf, type MachineFacts } from './eviction-facts.ts'
import { EVICTIONS_MAX, evictability, judge, victims, type EvictionFacts } from './eviction-rules.ts'
import { ANSWER_MS, takeExtraSamples, withExtraSamples, type ExtraSamples } from './extra-samples.ts'
import { commandsRun, hasMachine, type Parked, type ResidencyContext, type WatchedMachines } from './residency-clock.ts'
import type { WorkspaceEntry } from './table.ts'
import { withTimeout, oneAtATime } from '../../lib/poll.ts'

export interface EvictionContext extends Omit<ResidencyContext, 'host'> {
  host: ResidencyContext['host'] & { glance(): Promise<{ capacity: HostCapacity }> }
  cell_id: string
  ids: Ids
  room: CapacityAllocator
  watched: WatchedMachines
  metrics?: Pick<MachineMetrics, 'evicted'>
}

/** Pause when no machine can be evicted now: in the meantime calls end, and machines become evictable. */
const LOOK_AGAIN_MS = 200
/** After a failed or undone eviction a machine is not tried again for this long. */
const AGAIN_SECONDS = 1
/** Pause after the pool was found full. Deletions may free space in this time. */
const POOL_FULL_MS = 1000

export interface Evictor {
  state(): object
}

interface EvictorState {
  readonly context: EvictionContext
  readonly signal: AbortSignal
  readonly samples: ExtraSamples
  readonly chooseForDisk: ReturnType<typeof diskEvictor>
  /** Evictions under way, with the memory (MiB) that each writes. */
  readonly going: Map<string, number>
  /** Workspaces whose eviction failed or was undone, with the time of the retry. */
  readonly refused: Map<string, Date>
  /** One pass at a time. */
  readonly pass: () => Promise<void>
  passing: boolean
  next_pass: NodeJS.Timeout | undefined
  pool_full_until_ms: number
}

/** Hibernates the machines that were unused longest while requests wait for capacity. Does nothing if hibernation is off. */
export function startEvictor(context: EvictionContext, signal: AbortSignal): Evictor {
  const { room, park_after } = context
  if (park_after.hibernate_after_seconds === 0) return { state: () => ({ candidates: [] }) }
  const state: EvictorState = {
    context,
    signal,
    samples: { last: new Map(), resting: new Map() },
    chooseForDisk: diskEvictor(context),
    going: new Map(),
    refused: new Map(),
    pass: oneAtATime(() => pass(state)),
    passing: false,
    next_pass: undefined,
    pool_full_until_ms: 0,
  }
  room.setEvictionSource({ wanted: () => wanted(state), evictable_mib: remembered(() => evictableMib(state)) })
  signal.addEventListener('abort', () => stop(state), { once: true })
  return { state: () => shownState(state) }
}

function wanted(state: EvictorState): void {
  state.pass().catch((error: unknown) => {
    state.context.log.warn({ err: error }, 'no machine could be evicted')
    if (!state.signal.aborted) state.next_pass ??= passLater(state)
  })
}

function passLater(state: EvictorState): NodeJS.Timeout {
  return setTimeout(() => wanted(state), LOOK_AGAIN_MS).unref()
}

async function pass(state: EvictorState): Promise<void> {
  state.passing = true
  try {
    await evictOnce(state)
  } finally {
    state.passing = false
  }
}

async function evictOnce(state: EvictorState): Promise<void> {
  const { context, signal, samples, going, refused } = state
  clearTimeout(state.next_pass)
  state.next_pass = undefined
  for (const [id, until] of refused) if (until <= context.clock.now()) refused.delete(id)
  if (signal.aborted || !isWanted(context)) return
  if (hasUnclear(context)) context.room.requestReconcile()
  await takeExtraSamples(context, samples, factsOfAll(state))
  if (isStopped(signal)) return
  const chosen = await chooseVictims(state)
  if (chosen.length > 0 && going.size < EVICTIONS_MAX) await evictChosen(state, chosen)
  if (!isStopped(signal)) state.next_pass = passLater(state)
}

/** A function, because the value changes during the awaits. */
function isStopped({ aborted }: AbortSignal): boolean {
  return aborted
}

function isWanted({ room }: EvictionContext): boolean {
  return room.waiting().length > 0 || room.isRefused()
}

function factsOfAll({ context, going, refused, samples }: EvictorState): MachineFacts[] {
  return evictionFacts(context, going, refused).map((facts) => withExtraSamples(context, samples, facts))
}

async function chooseVictims(state: EvictorState): Promise<EvictionFacts[]> {
  const { context, going } = state
  const all = factsOfAll(state)
  const now = context.clock.now()
  const within_reach = all.filter((one) => evictability(one, now) !== 'no')
  const of_memory = victims(all, await context.room.lacking_mib(memoryOf(within_reach)), now)
  const for_disk = await state.chooseForDisk(all, going)
  return [...of_memory, ...all.filter(({ id }) => for_disk.has(id) && !going.has(id) && !of_memory.some((one) => one.id === id))]
}

/** Begins evictions while permits, pool space and waiting requests exist. */
async function evictChosen(state: EvictorState, chosen: readonly EvictionFacts[]): Promise<void> {
  const { context, signal, going } = state
  let spare_mib = (await spareMib(context.host)) - memoryOf([...going.values()].map((memory_mib) => ({ memory_mib })))
  const is_full = chosen.every(({ memory_mib }) => spare_mib <= memory_mib)
  state.pool_full_until_ms = is_full ? performance.now() + POOL_FULL_MS : 0
  for (const { id, memory_mib } of chosen) {
    const entry = context.table.get(id)
    if (going.size >= EVICTIONS_MAX || signal.aborted || !isWanted(context)) break
    if (entry === undefined || !hasMachine(entry) || spare_mib <= memory_mib) continue
    spare_mib -= memory_mib
    void evict(state, entry, memory_mib) // not awaited: evict logs its own errors
  }
}

async function evict(state: EvictorState, entry: Parked, memory_mib: number): Promise<void> {
  const { context, going } = state
  going.set(entry.id, memory_mib)
  try {
    using _ = context.room.leaving(entry.id, entry.grants?.memory_mib ?? 0)
    const outcome = await hibernateVictim(context, entry)
    context.metrics?.evicted(outcome)
    if (outcome === 'undone') leaveAlone(state, entry.id)
  } catch (error) {
    context.metrics?.evicted('failed')
    leaveAlone(state, entry.id)
    context.log.warn({ workspace_id: entry.id, err: error }, 'a machine could not be evicted')
  } finally {
    going.delete(entry.id)
    wanted(state)
  }
}

function leaveAlone({ context, refused }: EvictorState, id: string): void {
  refused.set(id, new Date(context.clock.now().getTime() + AGAIN_SECONDS * 1000))
}

/** @returns made: the machine was hibernated; undone: it was used again, or commands run in it. */
async function hibernateVictim(context: EvictionContext, entry: Parked): Promise<'made' | 'undone'> {
  const asked = commandsRun(context, context.watched, entry, context.clock.now())
  if (await withTimeout(ANSWER_MS, 'the commands of a guest', asked)) return 'undone'
  await context.parking.hibernate(entry, 'room')
  return context.table.get(entry.id)?.residency === 'hibernated' ? 'made' : 'undone'
}

const MIB = 2 ** 20

/** Space of the pool (MiB) without the reserve, which is for suspends. */
async function spareMib(host: EvictionContext['host']): Promise<number> {
  const { capacity } = await withTimeout(ANSWER_MS, 'the capacity of the host', host.glance())
  return (capacity.pool_free_bytes - capacity.reserve_bytes) / MIB
}

function hasUnclear({ table, parking }: EvictionContext): boolean {
  return table.known().some((entry) => isUnclear(entry) && !parking.inTransition().includes(entry.id))
}

/**
 * Memory is charged, but no machine can be evicted, and no operation or transition is at work.
 * Only a reconcile pass finds out whether the machine exists.
 */
function isUnclear({ here, observed_state, residency, hold, machine }: WorkspaceEntry): boolean {
  if (!here || observed_state !== 'running' || residency === 'hibernated' || hold !== null) return false
  return machine === null || machine.state === 'paused'
}

function evictableMib(state: EvictorState): number {
  const { context } = state
  if (performance.now() < state.pool_full_until_ms) return 0
  const now = context.clock.now()
  return memoryOf(factsOfAll(state).filter((one) => mayLeave(one, now))) + comingMib(context)
}

const REMEMBERED_MS = 20

/** Caches the value for a moment, because each of many waiting requests asks for it. */
function remembered(value: () => number): () => number {
  let last = { value: 0, until_ms: 0 }
  return () => {
    if (performance.now() >= last.until_ms) last = { value: value(), until_ms: performance.now() + REMEMBERED_MS }
    return last.value
  }
}

function stop({ context, next_pass }: EvictorState): void {
  clearTimeout(next_pass)
  context.room.setEvictionSource({ wanted: () => undefined, evictable_mib: () => 0 })
}

function shownState(state: EvictorState): object {
  const { context, going, passing, next_pass, pool_full_until_ms } = state
  return {
    candidates: factsOfAll(state).map((one) => ({ ...one, ...judge(one, context.clock.now()) })),
    going: Object.fromEntries(going),
    looking: passing,
    is_due: next_pass !== undefined,
    pool_full_until_ms,
  }
}
