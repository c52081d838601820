import type { Inventory } from '../../contract/internal/host-inventory.ts'
import type { DatabaseOptions } from '../db/options.ts'
import type { Listener } from '../db/listen.ts'
import type { AskActivity, AskAlive } from './machines/activity-query.ts'
import type { ObservedPolicies } from './policies/egress/observed-policies.ts'
import { startDenials } from './policies/egress/denials.ts'
import { startEgressReconciler, type EgressReconciler } from './policies/egress/reconciler.ts'
import { startAllowanceClock } from './machines/allowance-clock.ts'
import { describeCell } from './machines/cells-store.ts'
import { startHeartbeat } from './machines/heartbeat.ts'
import { startExpiry } from './reconcile/expiry.ts'
import type { ReconcileContext } from './reconcile/reconcile-pass.ts'
import { flushActivity, startFlushing } from './machines/flush.ts'
import { startEvictor } from './machines/evictor.ts'
import { startIdleClock } from './machines/idle-clock.ts'
import { startProbe } from './reconcile/probe.ts'
import { isWorkspace } from './host/subject.ts'
import type { AgentCallCounter } from './machines/agent-calls.ts'
import { startResidencyClock, type WatchedMachines } from './machines/residency-clock.ts'
import type { ParkAfter } from './machines/residency-rules.ts'
import { openSpareShare } from './reconcile/spare-share.ts'
import { residentIds } from './machines/store.ts'
import { retrying, debounced } from '../lib/poll.ts'
import { watchHost, type Comparing, type Watch } from './reconcile/watch.ts'
import type { CellMetrics } from './metrics.ts'
import { startMetering } from './metering/sampler.ts'
import { STARTING_KINDS } from './operations/begin.ts'
import type { CellContext } from './operations/job.ts'
import { ownCell } from './operations/ownership.ts'
import { readGiven } from './operations/queue-store.ts'
import { startRunner, type Runner } from './operations/runner.ts'
import { startResultExpiry } from './filetree/executions/forget.ts'
import { startCollectingLayers } from './operations/layers/collect.ts'
import { startListing } from './operations/layer-lists/listing.ts'
import { startTreeCollector } from './filetree/trees/collect.ts'
import { adoptStoreRevisions } from './filetree/trees/adopt-stores.ts'
import { startSweeping } from './reconcile/sweep.ts'
import { startWarming } from './operations/warm/capture-builder.ts'

export interface EngineOptions {
  cell: CellContext &
    Pick<ReconcileContext, 'quarantine_days'> & { warm_machines_max: number } & {
      metrics?: Pick<CellMetrics, 'recovered' | 'died' | 'evicted'>
    }
  listener: Listener
  /** Policies in force, as the host last reported them. */
  egress: ObservedPolicies
  database: DatabaseOptions
  endpoint: string
  ask_activity: AskActivity
  questions: AgentCallCounter
  /** Absent: machines are not probed. */
  ask_alive?: AskAlive
  park_after: ParkAfter
  watched?: WatchedMachines
  comparing?: Comparing
}

/** The part that acts for the cell. Only the process that owns the cell runs it. */
export interface Engine {
  /** This process owns the cell, and has compared it with its host. */
  isReady(): boolean
  /** Why it is not ready, for operators; null while it is. */
  whyNot(): string | null
  /** Resolves when it is ready for the first time. */
  ready: Promise<void>
  runner(): Runner | null
  watch(): Watch | null
  /** Resolves when policies that were notified before this call are in force. @throws if this process does not act. */
  settled(of: { workspace_id: string } | { project_id: string }): Promise<void>
  /** For failures and logs: everything that an operation may wait for. */
  state(): object
  /** Takes no more work, waits for work under way at most this long, then releases the cell. */
  close(drain_ms: number): Promise<void>
}

const RETRY_MS = 500
const DOUBT_MS = 2000
/** A pass that failed or was incomplete is repeated long before the next regular one. */
const COMPARED_AGAIN = { first_ms: DOUBT_MS, most_ms: 60_000 }

interface Term {
  runner: Runner
  keeper: EgressReconciler
  watch: Watch
  controller: AbortController
  state(): object
}

export function startEngine(options: EngineOptions): Engine {
  const { cell } = options
  const first = Promise.withResolvers<void>()
  const { questions, watched = new Map() as WatchedMachines } = options
  const closing = new AbortController()
  let term: Term | null = null
  let closed = false
  let attempt: AbortController | null = null
  let beginning: Watch | null = null

  const act = async (lost: AbortSignal, controller: AbortController) => {
    const signal = AbortSignal.any([lost, controller.signal])
    await cell.executions.recover()
    await cell.table.preload(await residentIds(cell.db, cell.cell_id))
    const keeper = startEgressReconciler(cell, options.listener, options.egress, signal)
    const again = retrying(COMPARED_AGAIN, () => watch.sweepSoon(), signal)
    const compared = (is_whole: boolean) => {
      again(is_whole)
      cell.room.noteReconciled(is_whole)
    }
    const seen = async (inventory: Inventory) => {
      // First, even if the rest fails: an operation may wait for capacity that the host has released.
      cell.room.describe(inventory.capacity, inventory.machines.filter(isWorkspace))
      term?.runner.wake() // the host may be back, with capacity
      const describe = () => describeCell(cell.db, cell.cell_id, options.endpoint, inventory, cell.clock.now())
      const done = await Promise.allSettled([keeper.compare(inventory), describe()])
      for (const one of done) if (one.status === 'rejected') throw one.reason
    }
    const watch = watchHost({ ...cell, ...options.comparing, compared }, signal, seen, options.comparing)
    beginning = watch
    await Promise.race([watch.ready, watch.ended])
    signal.throwIfAborted()
    await adoptStoreRevisions(cell, signal) // after the host has accepted this database
    // A deleted checkpoint releases its space only when its files are gone.
    signal.addEventListener('abort', options.listener.on('berth_checkpoint', watch.sweepSoon))
    // A pass repeats stops that the host has not done, because a request may wait for the capacity.
    const doubted = debounced(DOUBT_MS, watch.sweepSoon, signal)
    signal.addEventListener('abort', cell.room.onReconcileRequested(doubted))
    cell.room.restoreShares(await readGiven(cell.db, cell.cell_id, STARTING_KINDS, cell.clock.now()))
    const runner = startRunner({ cell, listener: options.listener, signal, leftovers: watch.sweepSoon })
    startFlushing(cell.db, cell.table, cell.log, signal)
    const ask_activity = questions.counted(options.ask_activity)
    const started_at = cell.clock.now() // reset in each term: nothing was observed in between
    // These stop when closing begins: a move that they begin then would be under way when the process ends.
    const open = AbortSignal.any([signal, closing.signal])
    startIdleClock({ ...cell, ask_activity, started_at }, open)
    const residency = { ...cell, ask_activity, questions, park_after: options.park_after, started_at, watched }
    watched.clear() // samples of an earlier term
    startResidencyClock(residency, open, residency.watched)
    const evictor = startEvictor(residency, open)
    startAllowanceClock(cell, open)
    startHeartbeat({ ...cell, in_contact: watch.in_contact }, open)
    startMetering(cell, signal)
    startDenials(cell, options.egress, signal)
    const { ask_alive } = options
    if (ask_alive !== undefined) startProbe({ ...cell, ask_alive: questions.counted(ask_alive), spare_share: openSpareShare() }, signal)
    startExpiry(cell, signal)
    startTreeCollector(cell, signal)
    startResultExpiry(cell, signal)
    startSweeping(cell, watch.sweepSoon, signal)
    startCollectingLayers(cell, signal)
    startListing(cell, options.listener, signal)
    startWarming({ ...cell, kept_max: cell.warm_machines_max }, options.listener, open)
    const state = () => ({
      capacity: cell.room.state(),
      evictor: evictor.state(),
      runner: runner.state(),
      comparison: { ...watch.state(), is_doubted: doubted.isDue(), is_repeated: again.isDue() },
    })
    term = { runner, keeper, watch, controller, state }
    cell.log.info('this process acts for the cell')
    first.resolve()
  }
  const begin = (lost: AbortSignal) => {
    const controller = new AbortController()
    attempt = controller
    lost.addEventListener('abort', () => {
      if (term?.controller === controller) term = null
      beginning = null
      cell.log.warn('this process no longer acts for the cell')
    })
    act(lost, controller).catch((error: unknown) => {
      controller.abort(error)
      if (lost.aborted || closed) return
      // The database went away during the start: try again under the same lock.
      cell.log.warn({ err: error }, 'the cell could not begin to act')
      setTimeout(() => {
        if (!lost.aborted && !closed) begin(lost)
      }, RETRY_MS)
    })
  }
  const ownership = ownCell(options.database, cell.cell_id, begin)
  return {
    isReady: () => term !== null,
    whyNot: () => (term === null ? (beginning?.trouble() ?? 'this process does not act for the cell') : null),
    ready: first.promise,
    runner: () => term?.runner ?? null,
    watch: () => term?.watch ?? null,
    state: () => term?.state() ?? { trouble: beginning?.trouble() ?? 'this process does not act for the cell' },
    async settled(of) {
      if (term === null) throw new Error('this process does not act for the cell')
      await term.keeper.settled(of)
    },
    async close(drain_ms) {
      closed = true
      closing.abort()
      const current = term
      if (current !== null) {
        await within(drain_ms, Promise.all([current.runner.drain(), stillMachines(cell)]))
        await flushActivity(cell.db, cell.table).catch(() => undefined) // harmless if lost: after a start everything counts as active
      }
      attempt?.abort(new Error('The cell is closing'))
      await ownership.close()
    },
  }
}

/** Waits for transitions under way: a guest that is being saved would stay paused until the next start of the cell. */
async function stillMachines({ parking }: CellContext): Promise<void> {
  await Promise.all(parking.inTransition().map((id) => parking.transitionEnded(id)))
}

async function within(limit_ms: number, work: Promise<unknown>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, limit_ms)
  await Promise.race([work, promise])
  clearTimeout(timer)
}
