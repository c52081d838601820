import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { OBSERVED_STATES } from '../../contract/states/machine.ts'
import type { Inventory } from '../../contract/internal/host-inventory.ts'
import type { Db } from '../db/database.ts'
import type { Clock } from '../lib/clock.ts'
import type { MachineHost } from './host/hostd.ts'
import { layerGauges } from './operations/layers/metrics.ts'
import type { LiveTable } from './machines/live-table.ts'
import type { CapacityAllocator } from './capacity/allocator.ts'
import { countWorkspaces, readEndedOperations, readOpenOperations } from './metrics-store.ts'
import { RECOVERIES, type Recovery } from './reconcile/recoveries.ts'
import { EVICTIONS, PARKING_MOVES, type Eviction, type ParkingMove } from './machines/parking-moves.ts'
import { openPortMetrics, type PortMetrics } from './ports/port-metrics.ts'

export interface CellMetrics {
  ports: PortMetrics
  registry: Registry
  recovered(what: Recovery): void
  died(reason: string): void
  moved(move: ParkingMove): void
  evicted(outcome: Eviction): void
}

export interface MetricsOptions {
  cell_id: string
  db: Db
  clock: Clock
  host: MachineHost
  table: LiveTable
  room: Pick<CapacityAllocator, 'waiting' | 'capacity'>
  isReady(): boolean
}

const DEATH_REASONS = new Set(['killed', 'out_of_memory', 'hung'])
/** Maximum age of an operation at its end: 15 minutes of waiting for capacity, and a slow start. */
const OPERATION_MS_MAX = 3600_000
/** Maximum delay until a commit is visible, after the time that it wrote. */
const COMMIT_LAG_MS = 60_000
const OPERATIONS_A_SCRAPE_MAX = 20_000
const HOST_AGE_MS_MAX = 5000
const SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900]

/** All metrics of a cell. Stored values are read at each scrape, so that nothing is counted twice. */
export function openCellMetrics(options: MetricsOptions): CellMetrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const { table, isReady } = options
  gauge(registry, 'berth_cell_acts', '1 while this process acts for the cell', () => (isReady() ? 1 : 0))
  gauge(
    registry,
    'berth_cell_machines',
    'Machines that run for a workspace',
    () => table.known().filter(({ machine }) => machine !== null).length,
  )
  parkedMachines(registry, table)
  waitingForRoom(registry, options)
  gauge(
    registry,
    'berth_cell_database_lost_seconds',
    'Time since contact with the database was last proven',
    () => table.databaseLostMs() / 1000,
  )
  workspaceStates(registry, options)
  openOperations(registry, options)
  endedOperations(registry, options)
  hostGauges(registry, options)
  layerGauges(registry, options)
  const counted = openMachineCounters(registry)
  return { registry, ports: openPortMetrics(registry), ...counted }
}

function openMachineCounters(registry: Registry): Omit<CellMetrics, 'registry' | 'ports'> {
  const recoveries = new Counter({
    name: 'berth_recoveries_total',
    help: 'Repairs of the reconciler',
    labelNames: ['what'],
    registers: [registry],
  })
  const deaths = new Counter({
    name: 'berth_machine_deaths_total',
    help: 'Machines that died',
    labelNames: ['reason'],
    registers: [registry],
  })
  const moves = new Counter({
    name: 'berth_parking_moves_total',
    help: 'Machines that were frozen, thawed, hibernated and woken',
    labelNames: ['move'],
    registers: [registry],
  })
  const evictions = new Counter({
    name: 'berth_room_evictions_total',
    help: 'Machines chosen for hibernation because a request waited for capacity',
    labelNames: ['outcome'],
    registers: [registry],
  })
  // Starts every series at 0, because an alarm detects only the rise of an existing series.
  for (const what of RECOVERIES) recoveries.inc({ what }, 0)
  for (const reason of DEATH_REASONS) deaths.inc({ reason }, 0)
  for (const move of PARKING_MOVES) moves.inc({ move }, 0)
  for (const outcome of EVICTIONS) evictions.inc({ outcome }, 0)
  return {
    recovered: (what) => recoveries.inc({ what }),
    died: (reason) => deaths.inc({ reason: DEATH_REASONS.has(reason) ? reason : 'other' }),
    moved: (move) => moves.inc({ move }),
    evicted: (outcome) => evictions.inc({ outcome }),
  }
}

function gauge(registry: Registry, name: string, help: string, value: () => number): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(value())
    },
  })
}

/** Counts running workspaces by residency (Cell, "Parking"). */
function parkedMachines(registry: Registry, table: LiveTable): void {
  new Gauge({
    name: 'berth_cell_residency',
    help: 'Running workspaces by residency of their machine',
    labelNames: ['residency'],
    registers: [registry],
    collect() {
      const running = table.known().filter(({ here, observed_state }) => here && observed_state === 'running')
      const frozen = running.filter(({ machine }) => machine?.state === 'frozen').length
      const asleep = running.filter(({ residency }) => residency !== 'resident').length
      this.set({ residency: 'frozen' }, frozen)
      this.set({ residency: 'hibernated' }, asleep)
      this.set({ residency: 'resident' }, running.length - frozen - asleep)
    },
  })
}

function waitingForRoom(registry: Registry, { room, clock }: MetricsOptions): void {
  const oldest = new Gauge({
    name: 'berth_room_oldest_seconds',
    help: 'Seconds that the oldest request has waited for capacity',
    registers: [registry],
  })
  new Gauge({
    name: 'berth_room_waiting',
    help: 'Operations and calls that wait for capacity on this host',
    labelNames: ['what'],
    registers: [registry],
    collect() {
      const waiting = room.waiting()
      const calls = waiting.filter(({ is_call }) => is_call).length
      this.set({ what: 'call' }, calls)
      this.set({ what: 'operation' }, waiting.length - calls)
      const since_ms = Math.min(...waiting.map(({ since }) => since.getTime()), clock.now().getTime())
      oldest.set((clock.now().getTime() - since_ms) / 1000)
    },
  })
}

/** Returns an empty list if the database does not answer: berth_cell_database_lost_seconds reports the outage. */
async function orNothing<T>(read: Promise<T[]>): Promise<T[]> {
  return read.catch(() => [])
}

function workspaceStates(registry: Registry, { db, cell_id }: MetricsOptions): void {
  new Gauge({
    name: 'berth_workspaces',
    help: 'Workspaces of this cell by observed state',
    labelNames: ['state'],
    registers: [registry],
    async collect() {
      this.reset()
      const counted = await orNothing(countWorkspaces(db, cell_id))
      for (const state of OBSERVED_STATES) this.set({ state }, counted.find((one) => one.state === state)?.count ?? 0)
    },
  })
}

function openOperations(registry: Registry, { db, clock }: MetricsOptions): void {
  const oldest = new Gauge({
    name: 'berth_operation_oldest_seconds',
    help: 'Age of the oldest operation in progress',
    labelNames: ['kind'],
    registers: [registry],
  })
  new Gauge({
    name: 'berth_operations_open',
    help: 'Operations in progress',
    labelNames: ['kind', 'state'],
    registers: [registry],
    async collect() {
      this.reset()
      oldest.reset()
      const now_ms = clock.now().getTime()
      const ages = new Map<string, number>()
      for (const { kind, state, count, oldest_at } of await orNothing(readOpenOperations(db))) {
        this.set({ kind, state }, count)
        ages.set(kind, Math.max(ages.get(kind) ?? 0, (now_ms - oldest_at.getTime()) / 1000))
      }
      for (const [kind, seconds] of ages) oldest.set({ kind }, seconds)
    },
  })
}

function endedOperations(registry: Registry, { db, clock, cell_id }: MetricsOptions): void {
  let since = clock.now()
  const counted = new Map<string, number>() // id -> end of the operation
  const observe = async (histogram: Histogram<'kind' | 'outcome'>) => {
    const now_ms = clock.now().getTime()
    const from = new Date(since.getTime() - COMMIT_LAG_MS)
    const first_id = leastId(now_ms - OPERATION_MS_MAX)
    for (const { id, kind, outcome, seconds, completed_at } of await orNothing(
      readEndedOperations(db, cell_id, first_id, from, OPERATIONS_A_SCRAPE_MAX),
    )) {
      if (counted.has(id)) continue
      counted.set(id, completed_at.getTime())
      if (completed_at >= started_at) histogram.observe({ kind, outcome }, Math.max(0, seconds))
    }
    since = new Date(now_ms)
    for (const [id, ended_ms] of counted) if (ended_ms < from.getTime()) counted.delete(id)
  }
  const started_at = since
  new Histogram({
    name: 'berth_operation_seconds',
    help: 'Time from creation to end of operations that ended since this process began',
    labelNames: ['kind', 'outcome'],
    buckets: SECONDS,
    registers: [registry],
    async collect() {
      await observe(this)
    },
  })
}

/** @returns the smallest UUIDv7 of a time. */
function leastId(at_ms: number): string {
  const hex = Math.max(0, Math.floor(at_ms)).toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`
}

function hostGauges(registry: Registry, { host }: MetricsOptions): void {
  let last: { at_ms: number; inventory: Promise<Inventory | null> } | null = null
  const look = () => {
    if (last === null || performance.now() - last.at_ms > HOST_AGE_MS_MAX)
      last = { at_ms: performance.now(), inventory: host.inventory().catch(() => null) } // berth_host_up reports the failure
    return last.inventory
  }
  const each: [string, string, (inventory: Inventory) => number][] = [
    ['berth_pool_bytes', 'Size of the pool of disks and checkpoints', ({ capacity }) => capacity.pool_bytes],
    ['berth_pool_free_bytes', 'Free bytes of the pool, the reserve included', ({ capacity }) => capacity.pool_free_bytes],
    ['berth_pool_reserve_bytes', 'Bytes of the pool that are kept free for suspends', ({ capacity }) => capacity.reserve_bytes],
    ['berth_host_slots_ready', 'Machines that wait for opens', ({ slots }) => slots],
    [
      'berth_host_slots_fitted',
      "Machines that wait for opens and have a template's blank disk already",
      ({ fitted_slots }) => fitted_slots,
    ],
    ['berth_host_shells_ready', 'Empty machines that wait for resumes', ({ shells }) => shells],
    ['berth_host_resolver_up', "Whether machines' DNS questions are answered", ({ resolver }) => Number(resolver.serving)],
    ['berth_host_machines', 'Machines that the host runs for workspaces', ({ machines }) => machines.length],
    [
      'berth_host_checkpoints',
      'Finished checkpoints on the host',
      ({ files }) => files.reduce((sum, { checkpoints }) => sum + checkpoints.length, 0),
    ],
  ]
  for (const [name, help, value] of each)
    new Gauge({
      name,
      help,
      registers: [registry],
      async collect() {
        const inventory = await look()
        this.reset()
        if (inventory !== null) this.set(value(inventory))
      },
    })
  new Gauge({
    name: 'berth_host_up',
    help: '1 while the machine host answers',
    registers: [registry],
    async collect() {
      this.set((await look()) === null ? 0 : 1)
    },
  })
}
