import type { DatabaseOptions } from '../db/options.ts'
import type { Listener } from '../db/listen.ts'
import type { AskActivity, AskAlive } from './machines/activity-query.ts'
import type { ObservedPolicies } from './policies/egress/observed-policies.ts'
import type { ReconcileContext } from './reconcile/reconcile-pass.ts'
import { flushActivity } from './machines/flush.ts'
import type { AgentCallCounter } from './machines/agent-calls.ts'
import type { WatchedMachines } from './machines/residency-clock.ts'
import type { ParkAfter } from './machines/residency-rules.ts'
import type { Comparing, Watch } from './reconcile/watch.ts'
import type { CellMetrics } from './metrics.ts'
import type { CellContext } from './operations/job.ts'
import { ownCell } from './operations/ownership.ts'
import type { Runner } from './operations/runner.ts'
import { beginTerm, type Term } from './term.ts'

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

/** Acts for the cell: runs operations and reconciles machines. Only the process that owns the cell runs it. */
export interface Engine {
  /** True if this process owns the cell, and has compared its rows with the host. */
  isReady(): boolean
  /** Why the engine is not ready, for operators; null while it is ready. */
  whyNot(): string | null
  /** Resolves when the engine is ready for the first time. */
  ready: Promise<void>
  runner(): Runner | null
  watch(): Watch | null
  /** Resolves when policies that were notified before this call are in force. @throws if this process does not act. */
  settled(of: { workspace_id: string } | { project_id: string }): Promise<void>
  /** For failure reports and logs: everything that an operation may wait for. */
  state(): object
  /** Starts no more work, waits for work under way at most this long, then releases the cell. */
  close(drain_ms: number): Promise<void>
}

const RETRY_MS = 500
const DOES_NOT_ACT = 'this process does not act for the cell'

export interface EngineState {
  readonly options: EngineOptions
  readonly watched: WatchedMachines
  /** Resolves with the first term. */
  readonly first: PromiseWithResolvers<void>
  readonly closing: AbortController
  /** null: this process does not act for the cell. */
  term: Term | null
  /** Aborts the last term, or a term that is starting. */
  last: AbortController | null
  /** The watch of the term, also while the term begins. */
  watch: Watch | null
}

export function startEngine(options: EngineOptions): Engine {
  const state: EngineState = {
    options,
    watched: options.watched ?? new Map(),
    first: Promise.withResolvers(),
    closing: new AbortController(),
    term: null,
    last: null,
    watch: null,
  }
  const ownership = ownCell(options.database, options.cell.cell_id, (lost) => begin(state, lost))
  return {
    isReady: () => state.term !== null,
    whyNot: () => (state.term === null ? whyNot(state) : null),
    ready: state.first.promise,
    runner: () => state.term?.runner ?? null,
    watch: () => state.term?.watch ?? null,
    state: () => state.term?.state() ?? { trouble: whyNot(state) },
    async settled(of) {
      if (state.term === null) throw new Error(DOES_NOT_ACT)
      await state.term.keeper.settled(of)
    },
    async close(drain_ms) {
      await endWork(state, drain_ms)
      await ownership.close()
    },
  }
}

function whyNot({ watch }: EngineState): string {
  return watch?.trouble() ?? DOES_NOT_ACT
}

function begin(state: EngineState, lost: AbortSignal): void {
  const { log } = state.options.cell
  const controller = new AbortController()
  state.last = controller
  lost.addEventListener('abort', () => {
    if (state.term?.controller === controller) state.term = null
    state.watch = null
    log.warn('this process no longer acts for the cell')
  })
  const isOver = () => lost.aborted || state.closing.signal.aborted
  beginTerm(state, lost, controller).catch((error: unknown) => {
    controller.abort(error)
    if (isOver()) return
    // The database went away during the start: try again under the same lock.
    log.warn({ err: error }, 'the cell could not begin to act')
    setTimeout(() => {
      if (!isOver()) begin(state, lost)
    }, RETRY_MS)
  })
}

async function endWork(state: EngineState, drain_ms: number): Promise<void> {
  const { cell } = state.options
  state.closing.abort()
  const { term } = state
  if (term !== null) {
    await within(drain_ms, Promise.all([term.runner.drain(), stillMachines(cell)]))
    await flushActivity(cell.db, cell.table).catch(() => undefined) // a failure is harmless: after a start every workspace counts as active
  }
  state.last?.abort(new Error('The cell is closing'))
}

/** Waits for transitions under way. Otherwise a guest that is being saved would be paused until the next start of the cell. */
async function stillMachines({ parking }: CellContext): Promise<void> {
  await Promise.all(parking.inTransition().map((id) => parking.transitionEnded(id)))
}

async function within(limit_ms: number, work: Promise<unknown>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, limit_ms)
  await Promise.race([work, promise])
  clearTimeout(timer)
}
