import { MEASURES_MAX } from '../../../contract/internal/host-disks.ts'
import type { HostCapacity } from '../../../contract/internal/host-inventory.ts'
import { workspaceSubject } from '../host/subject.ts'
import type { MachineMetrics } from './parking-moves.ts'
import type { Ids } from '../../lib/ids.ts'
import type { CapacityAllocator } from '../capacity/allocator.ts'
import { diskEvictor } from './disk-eviction.ts'
import { EVICTIONS_MAX, evictability, isOfAge, judge, victims, type EvictionFacts } from './eviction-rules.ts'
import { commandsRun, factsOf, hasMachine, latest, type Parked, type ResidencyContext, type WatchedMachines } from './residency-clock.ts'
import { wasBusy, type Counters } from './residency-rules.ts'
import type { FailureKind } from './save-failures.ts'
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

/** Pause when nothing can be evicted now: machines come of age, calls end. */
const LOOK_AGAIN_MS = 200
/** A machine whose eviction failed or was undone is left alone for this long. */
const AGAIN_SECONDS = 1
/** Pause after the pool was found full: deletions may have made space since. */
const POOL_FULL_MS = 1000
/** Time limit of a query to the host or to a guest, so that a missing answer does not block the evictor. */
const ANSWER_MS = 5000

export interface Evictor {
  state(): object
}

/** Hibernates the machines that were unused longest while requests wait for capacity. Does nothing if hibernation is off. */
export function startEvictor(context: EvictionContext, signal: AbortSignal): Evictor {
  const { room, park_after, log, clock, parking } = context
  if (park_after.hibernate_after_seconds === 0) return { state: () => ({ candidates: [] }) }
  const going = new Map<string, number>()
  const refused = new Map<string, Date>()
  let timer: NodeJS.Timeout | undefined
  let pool_full_until_ms = 0
  const stopped = () => signal.aborted
  const isWanted = () => room.waiting().length > 0 || room.isRefused()

  const closer = extraSamples(context)
  const lookForDisk = diskEvictor(context)
  const facts = () => evictionFacts(context, going, refused).map(closer.seen)
  const leaveAlone = (id: string) => void refused.set(id, new Date(clock.now().getTime() + AGAIN_SECONDS * 1000))
  const evict = async (entry: Parked, memory_mib: number) => {
    going.set(entry.id, memory_mib)
    try {
      using _ = room.leaving(entry.id, entry.grants?.memory_mib ?? 0)
      const outcome = await hibernateVictim(context, entry)
      context.metrics?.evicted(outcome)
      if (outcome === 'undone') leaveAlone(entry.id)
    } catch (error) {
      context.metrics?.evicted('failed')
      leaveAlone(entry.id)
      log.warn({ workspace_id: entry.id, err: error }, 'a machine could not make room')
    } finally {
      going.delete(entry.id)
      wanted()
    }
  }
  let looking = false
  const look = oneAtATime(async () => {
    looking = true
    try {
      await lookOnce()
    } finally {
      looking = false
    }
  })
  const lookOnce = async () => {
    clearTimeout(timer)
    timer = undefined
    for (const [id, until] of refused) if (until <= clock.now()) refused.delete(id)
    if (stopped() || !isWanted()) return
    if (context.table.known().some((entry) => isUnclear(entry) && !parking.inTransition().includes(entry.id))) room.requestReconcile()
    await closer.look(facts())
    if (stopped()) return
    const all = facts()
    const now = clock.now()
    const within_reach = all.filter((one) => evictability(one, now) !== 'no')
    const of_memory = victims(all, await room.lacking_mib(sum(within_reach)), now)
    const for_disk = await lookForDisk(all, going)
    const chosen = [...of_memory, ...all.filter(({ id }) => for_disk.has(id) && !going.has(id) && !of_memory.some((one) => one.id === id))]
    if (chosen.length > 0 && going.size < EVICTIONS_MAX) {
      let spare_mib = (await spareMib(context.host)) - sum([...going.values()].map((memory_mib) => ({ memory_mib })))
      const is_full = chosen.every(({ memory_mib }) => spare_mib <= memory_mib)
      pool_full_until_ms = is_full ? performance.now() + POOL_FULL_MS : 0
      for (const { id, memory_mib } of chosen) {
        const entry = context.table.get(id)
        if (going.size >= EVICTIONS_MAX || stopped() || !isWanted()) break
        if (entry === undefined || !hasMachine(entry) || spare_mib <= memory_mib) continue
        spare_mib -= memory_mib
        void evict(entry, memory_mib)
      }
    }
    if (!stopped()) timer = setTimeout(wanted, LOOK_AGAIN_MS).unref()
  }
  const wanted = () =>
    void look().catch((error: unknown) => {
      log.warn({ err: error }, 'nobody could be made to leave')
      if (!stopped()) timer ??= setTimeout(wanted, LOOK_AGAIN_MS).unref()
    })
  const evictable_mib = () => {
    if (performance.now() < pool_full_until_ms) return 0
    const now = clock.now()
    return sum(facts().filter((one) => mayLeave(one, now))) + comingMib(context)
  }
  room.setEvictionSource({ wanted, evictable_mib: remembered(evictable_mib) })
  signal.addEventListener(
    'abort',
    () => {
      clearTimeout(timer)
      room.setEvictionSource({ wanted: () => undefined, evictable_mib: () => 0 })
    },
    { once: true },
  )
  const candidates = () => facts().map((one) => ({ ...one, ...judge(one, clock.now()) }))
  return {
    state: () => ({ candidates: candidates(), going: Object.fromEntries(going), looking, is_due: timer !== undefined, pool_full_until_ms }),
  }
}

/**
 * A workspace whose memory counts and that has no machine to evict, although neither an operation nor a transition is at work.
 * Only a reconcile pass finds out what is there.
 */
function isUnclear({ here, observed_state, residency, hold, machine }: WorkspaceEntry): boolean {
  if (!here || observed_state !== 'running' || residency === 'hibernated' || hold !== null) return false
  return machine === null || machine.state === 'paused'
}

const MIB = 2 ** 20

/** Space of the pool that hibernations may use: the reserve is for suspends. */
async function spareMib(host: EvictionContext['host']): Promise<number> {
  const { capacity } = await withTimeout(ANSWER_MS, 'the capacity of the host', host.glance())
  return (capacity.pool_free_bytes - capacity.reserve_bytes) / MIB
}

/** @returns made: it was hibernated; undone: it was used again, or commands run in it. */
async function hibernateVictim(context: EvictionContext, entry: Parked): Promise<'made' | 'undone'> {
  const asked = commandsRun(context, context.watched, entry, context.clock.now())
  if (await withTimeout(ANSWER_MS, 'the commands of a guest', asked)) return 'undone'
  await context.parking.hibernate(entry, 'room')
  return context.table.get(entry.id)?.residency === 'hibernated' ? 'made' : 'undone'
}

function evictionFacts(context: EvictionContext, going: ReadonlyMap<string, number>, refused: ReadonlyMap<string, Date>): Facts[] {
  const { table, parking, watched, room } = context
  const headroom_mib = room.capacity()?.headroom_mib ?? 0
  const moving = new Set([...parking.inTransition(), ...going.keys()])
  return table
    .known()
    .filter(hasMachine)
    .map((entry) => {
      const { id, organization_id, active_at, grants, machine, hold } = entry
      const facts = factsOf(context, watched, entry)
      const failed = parking.saveFailed(id)
      const saved_again_at = (kind: FailureKind) => (failed?.kind === kind ? failed.again_at.room : null)
      return {
        ...facts,
        id,
        organization_id,
        memory_mib: grants === null ? 0 : grants.memory_mib + headroom_mib,
        moving: moving.has(id),
        refused: machine.engine_refused === true,
        // Includes the row's time: that one survives a restart.
        used_at: latest(active_at, table.activity.lastActive(id), parking.wokenAt(id)),
        not_before: lastOf(watched.get(id)?.ask_again_at, saved_again_at('machine')),
        retried_at: lastOf(refused.get(id), saved_again_at('passing')),
        ends: hold !== null && ENDS.has(hold.operation_kind ?? ''),
        fence: machine.fence,
        has_calls_alone: table.activity.seen(id)?.holds.every(({ what }) => what === 'call') ?? true,
      }
    })
}

interface Facts extends EvictionFacts {
  ends: boolean
  fence: number
  /** Only calls are in progress, if anything: they end. */
  has_calls_alone: boolean
}

const ENDS: ReadonlySet<string> = new Set(['suspend', 'delete'])

function mayLeave(facts: Facts, now: Date): boolean {
  const used_for_now = facts.in_use && facts.has_calls_alone && !facts.moving
  return facts.ends || evictability(used_for_now ? { ...facts, in_use: false } : facts, now) !== 'no'
}

/** Memory of machines that are being woken: they may be evicted after their calls. */
function comingMib({ table, parking, room }: EvictionContext): number {
  const headroom_mib = room.capacity()?.headroom_mib ?? 0
  const waiting = new Set(room.waiting().map(({ id }) => id))
  const coming = parking.inTransition().flatMap((id) => {
    const entry = table.get(id)
    return entry?.machine === null && entry.grants !== null && !waiting.has(id) ? [entry.grants] : []
  })
  return sum(coming) + coming.length * headroom_mib
}

/** Long enough for the use of a busy guest to show. */
const CLOSER_MS_MIN = 150
const RESTS_MS = 500

interface Sample {
  fence: number
  counters: Counters
  looked_ms: number
}

/** Samples machines that have come of age now: a waiting request does not wait for the next pass of the residency clock. */
function extraSamples({ host, watched, questions, clock, table }: EvictionContext) {
  const askedOf = (id: string) => {
    const machine = table.get(id)?.machine
    return machine ? questions.of(machine) : undefined
  }
  const samples = new Map<string, Sample>()
  const rests = new Map<string, { fence: number; until_ms: number }>()
  return {
    async look(facts: readonly Facts[]): Promise<void> {
      const now = clock.now()
      const due = facts
        .filter((one) => one.state === 'running' && evictability(one, now) === 'soon' && isOfAge(one, now))
        .slice(0, MEASURES_MAX)
      const ids = new Set(due.map(({ id }) => id))
      for (const id of samples.keys()) if (!ids.has(id)) samples.delete(id)
      for (const [id, { until_ms }] of rests) if (until_ms <= clock.monotonic_ms()) rests.delete(id)
      if (due.length === 0) return
      const ended = new Map(due.map(({ id }) => [id, askedOf(id)?.ended ?? 0]))
      const looked_ms = clock.monotonic_ms()
      for (const { subject, fence, cpu_usec, rx_bytes, tx_bytes } of await measured(host, ids)) {
        const { id } = subject
        const counters = { cpu_usec, rx_bytes, tx_bytes, questions_ended: ended.get(id) ?? 0, questions_begun: askedOf(id)?.begun ?? 0 }
        const before = samples.get(id) ?? watched.get(id)
        if (before?.fence !== fence) samples.set(id, { fence, counters, looked_ms })
        else if (looked_ms - before.looked_ms >= CLOSER_MS_MIN) {
          if (!wasBusy(before.counters, counters, looked_ms - before.looked_ms)) rests.set(id, { fence, until_ms: looked_ms + RESTS_MS })
          samples.set(id, { fence, counters, looked_ms })
        }
      }
    },
    seen(facts: Facts): Facts {
      const rest = rests.get(facts.id)
      return rest?.fence === facts.fence && rest.until_ms > clock.monotonic_ms() ? { ...facts, busy_at: LONG_AGO } : facts
    },
  }
}

function measured(host: EvictionContext['host'], ids: ReadonlySet<string>) {
  return withTimeout(ANSWER_MS, 'the counters of machines', host.stats([...ids].map(workspaceSubject)))
}

const LONG_AGO = new Date(0)

function lastOf(...dates: (Date | null | undefined)[]): Date | null {
  return dates.reduce<Date | null>((last, date) => (date && (last === null || date > last) ? date : last), null)
}

function sum(sizes: readonly { memory_mib: number }[]): number {
  return sizes.reduce((all, { memory_mib }) => all + memory_mib, 0)
}

const REMEMBERED_MS = 20

/** Caches the value for a moment: each of many waiting requests asks for it. */
function remembered(value: () => number): () => number {
  let last = { value: 0, until_ms: 0 }
  return () => {
    if (performance.now() >= last.until_ms) last = { value: value(), until_ms: performance.now() + REMEMBERED_MS }
    return last.value
  }
}
