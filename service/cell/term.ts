import { retrying, debounced, type Timed } from '../lib/poll.ts'
import type { EngineOptions, EngineState } from './engine.ts'
import { startResultExpiry } from './filetree/executions/forget.ts'
import { adoptStoreRevisions } from './filetree/trees/adopt-stores.ts'
import { startTreeCollector } from './filetree/trees/collect.ts'
import type { Inventory } from '../../contract/internal/host-inventory.ts'
import { isWorkspace } from './host/subject.ts'
import { startAllowanceClock } from './machines/allowance-clock.ts'
import { describeCell } from './machines/cells-store.ts'
import { startEvictor, type Evictor } from './machines/evictor.ts'
import { startFlushing } from './machines/flush.ts'
import { startHeartbeat } from './machines/heartbeat.ts'
import { startIdleClock } from './machines/idle-clock.ts'
import { startResidencyClock } from './machines/residency-clock.ts'
import { residentIds } from './machines/store.ts'
import { startMetering } from './metering/sampler.ts'
import { STARTING_KINDS } from './operations/begin.ts'
import { startListing } from './operations/layer-lists/listing.ts'
import { startCollectingLayers } from './operations/layers/collect.ts'
import { readGiven } from './operations/queue-store.ts'
import { startRunner, type Runner } from './operations/runner.ts'
import { startWarming } from './operations/warm/capture-builder.ts'
import { startDenials } from './policies/egress/denials.ts'
import { startEgressReconciler, type EgressReconciler } from './policies/egress/reconciler.ts'
import { startExpiry } from './reconcile/expiry.ts'
import { startProbe } from './reconcile/probe.ts'
import { openSpareShare } from './reconcile/spare-share.ts'
import { startSweeping } from './reconcile/sweep.ts'
import { watchHost, type Watch } from './reconcile/watch.ts'

const DOUBT_MS = 2000
/** A pass that failed or was incomplete is repeated long before the next regular one. */
const COMPARED_AGAIN = { first_ms: DOUBT_MS, most_ms: 60_000 }

/** The time from the first comparison with the host until this process loses the cell. */
export interface Term {
  runner: Runner
  keeper: EgressReconciler
  watch: Watch
  controller: AbortController
  state(): object
}

/** Compares rows with the host, then starts all workers that act for the cell. Sets the engine's term. */
export async function beginTerm(engine: EngineState, lost: AbortSignal, controller: AbortController): Promise<void> {
  const { cell, listener, egress } = engine.options
  const signal = AbortSignal.any([lost, controller.signal])
  await cell.executions.recover()
  await cell.table.preload(await residentIds(cell.db, cell.cell_id))
  const keeper = startEgressReconciler(cell, listener, egress, signal)
  const { watch, repeated } = followHost(engine, keeper, signal)
  engine.watch = watch
  await Promise.race([watch.ready, watch.ended])
  signal.throwIfAborted()
  await adoptStoreRevisions(cell, signal) // after the host has accepted this database
  const doubted = sweepOnRequest(engine.options, watch, signal)
  cell.room.restoreShares(await readGiven(cell.db, cell.cell_id, STARTING_KINDS, cell.clock.now()))
  signal.throwIfAborted() // a term that was lost in the meantime must not become the engine's
  const runner = startRunner({ cell, listener, signal, leftovers: watch.sweepSoon })
  const evictor = startWorkers(engine, watch, signal)
  const state = () => ({
    capacity: cell.room.state(),
    evictor: evictor.state(),
    runner: runner.state(),
    comparison: { ...watch.state(), is_doubted: doubted.isDue(), is_repeated: repeated.isDue() },
  })
  engine.term = { runner, keeper, watch, controller, state }
  cell.log.info('this process acts for the cell')
  engine.first.resolve()
}

interface Following {
  watch: Watch
  /** Receives the result of each pass, and requests another pass after one that failed or was incomplete. */
  repeated: Timed<(is_whole: boolean) => void>
}

function followHost(engine: EngineState, keeper: EgressReconciler, signal: AbortSignal): Following {
  const { cell, comparing } = engine.options
  const repeated = retrying(COMPARED_AGAIN, () => watch.sweepSoon(), signal)
  const compared = (is_whole: boolean) => {
    repeated(is_whole)
    cell.room.noteReconciled(is_whole)
  }
  const seen = (inventory: Inventory) => takeReport(engine, keeper, inventory)
  const watch = watchHost({ ...cell, ...comparing, compared }, signal, seen, comparing)
  return { watch, repeated }
}

async function takeReport(engine: EngineState, keeper: EgressReconciler, inventory: Inventory): Promise<void> {
  const { cell, endpoint } = engine.options
  // Called first, even if the rest fails: an operation may wait for capacity that the host has released.
  cell.room.describe(inventory.capacity, inventory.machines.filter(isWorkspace))
  engine.term?.runner.wake() // the host may have capacity again after an outage
  const describe = () => describeCell(cell.db, cell.cell_id, endpoint, inventory, cell.clock.now())
  const done = await Promise.allSettled([keeper.compare(inventory), describe()])
  for (const one of done) if (one.status === 'rejected') throw one.reason
}

/** @returns the timer of the passes that the allocator requests. */
function sweepOnRequest({ cell, listener }: EngineOptions, watch: Watch, signal: AbortSignal): Timed<() => void> {
  // A deleted checkpoint releases its space only when its files are gone.
  signal.addEventListener('abort', listener.on('berth_checkpoint', watch.sweepSoon))
  // A pass repeats stops that the host has not done. It is requested because a request may wait for that capacity.
  const doubted = debounced(DOUBT_MS, watch.sweepSoon, signal)
  signal.addEventListener('abort', cell.room.onReconcileRequested(doubted))
  return doubted
}

function startWorkers(engine: EngineState, watch: Watch, signal: AbortSignal): Evictor {
  const { cell, listener, egress, ask_alive, questions } = engine.options
  startFlushing(cell.db, cell.table, cell.log, signal)
  // These workers stop when closing begins. A transition that they begin later would still be under way when the process ends.
  const open = AbortSignal.any([signal, engine.closing.signal])
  const evictor = startParkingWorkers(engine, open)
  startAllowanceClock(cell, open)
  startHeartbeat({ ...cell, in_contact: watch.in_contact }, open)
  startMetering(cell, signal)
  startDenials(cell, egress, signal)
  if (ask_alive !== undefined) startProbe({ ...cell, ask_alive: questions.counted(ask_alive), spare_share: openSpareShare() }, signal)
  startExpiry(cell, signal)
  startTreeCollector(cell, signal)
  startResultExpiry(cell, signal)
  startSweeping(cell, watch.sweepSoon, signal)
  startCollectingLayers(cell, signal)
  startListing(cell, listener, signal)
  startWarming({ ...cell, kept_max: cell.warm_machines_max }, listener, open)
  return evictor
}

function startParkingWorkers({ options, watched }: EngineState, signal: AbortSignal): Evictor {
  const { cell, questions, park_after } = options
  const ask_activity = questions.counted(options.ask_activity)
  const started_at = cell.clock.now() // reset in each term, because this process observed nothing between terms
  startIdleClock({ ...cell, ask_activity, started_at }, signal)
  const residency = { ...cell, ask_activity, questions, park_after, started_at, watched }
  watched.clear() // removes samples of an earlier term
  startResidencyClock(residency, signal, watched)
  return startEvictor(residency, signal)
}
