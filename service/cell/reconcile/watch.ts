import { setTimeout } from 'node:timers/promises'
import type { HostEvent, Inventory } from '../../../contract/internal/host-inventory.ts'
import { HostFailure } from '../host/hostd.ts'
import { reconcile } from './reconcile.ts'
import { stateOf, settle } from '../machines/settle-store.ts'
import type { ReconcileContext } from './reconcile-pass.ts'
import { isWorkspace } from '../host/subject.ts'
import { withTimeout, TimedOut } from '../../lib/poll.ts'

const RETRY_MS_MIN = 100
const RETRY_MS_MAX = 2000
const SWEEP_MS = 60_000
/**
 * The next pass waits no longer than this for the previous one.
 * The late pass continues: the host refuses its lower fence for workspaces that the next pass has commanded.
 */
const LATE_MS = 30_000

export interface Comparing {
  regular_ms?: number
  late_ms?: number
  one_ms?: number
}

export interface Watch {
  /** Resolves after the first full pass. */
  ready: Promise<void>
  /** Requests a pass, unless one is requested already. */
  sweepSoon(): void
  sweep(): Promise<void>
  ended: Promise<void>
  /** Whether this process is connected to the events of the host. */
  in_contact(): boolean
  /** The reason why there was no pass yet, or why contact was lost; null while there is contact. */
  trouble(): string | null
  state(): object
}

interface Pass {
  began_at: Date
  ended_at: Date | null
  result: string
}

interface WatchState {
  readonly context: ReconcileContext
  readonly signal: AbortSignal
  readonly seen: (inventory: Inventory) => Promise<void>
  readonly late_ms: number
  readonly ready: PromiseWithResolvers<void>
  /** The next pass begins when this resolves. */
  before: Promise<void>
  /** True if a pass is requested and has not begun. */
  asked: boolean
  /** True after the first full pass has compared rows and host. */
  begun: boolean
  last: Pass | null
  in_contact: boolean
  trouble: string | null
}

/**
 * Follows the machine host: a full pass first, then deaths by events. A full pass follows each loss of contact, because events of that
 * time are lost.
 */
export function watchHost(
  context: ReconcileContext,
  signal: AbortSignal,
  seen: (inventory: Inventory) => Promise<void>,
  { regular_ms = SWEEP_MS, late_ms = LATE_MS }: Comparing = {},
): Watch {
  const state: WatchState = {
    context,
    signal,
    seen,
    late_ms,
    ready: Promise.withResolvers(),
    before: Promise.resolve(),
    asked: false,
    begun: false,
    last: null,
    in_contact: false,
    trouble: 'the first reconcile pass runs',
  }
  const timer = setInterval(() => sweepSoon(state), regular_ms)
  const ended = stayInContact(state).finally(() => clearInterval(timer))
  return {
    ready: state.ready.promise,
    sweepSoon: () => sweepSoon(state),
    sweep: () => sweep(state),
    ended,
    in_contact: () => state.in_contact,
    trouble: () => state.trouble,
    state: () => ({ last: state.last, asked: state.asked, in_contact: state.in_contact, trouble: state.trouble }),
  }
}

function sweepSoon(state: WatchState): void {
  if (state.asked) return
  state.asked = true
  sweep(state).catch((error: unknown) => state.context.log.warn({ err: error }, 'a reconcile pass failed'))
}

/** Queues a full pass. The pass waits for the previous one, but no longer than `late_ms`. */
function sweep(state: WatchState): Promise<void> {
  const { context, late_ms } = state
  const next = state.before.then(() => compare(state))
  const late = () => context.log.warn('a reconcile pass takes long, and the next one does not wait for it')
  // No other part of the cell acts until the first pass of a term has ended.
  const end = () => (state.begun ? withTimeout(late_ms, 'a comparison', next) : next)
  state.before = state.before.then(end).catch((error: unknown) => {
    if (!(error instanceof TimedOut)) return
    late()
    context.compared?.(false)
  })
  return next
}

async function compare(state: WatchState): Promise<void> {
  const { context } = state
  state.asked = false
  if (state.signal.aborted) return
  const own: Pass = { began_at: context.clock.now(), ended_at: null, result: 'under way' }
  state.last = own
  try {
    const compareGuests = context.guests?.comparing()
    const { inventory, is_whole } = await reconcile(context, !state.begun)
    state.begun = true
    if (isLast(state, own)) {
      compareGuests?.(inventory.machines)
      await state.seen(inventory)
    }
    noteEnd(state, own, is_whole ? 'repaired all differences' : 'could not repair all differences', is_whole)
  } catch (error) {
    noteEnd(state, own, String(error), false)
    throw error
  }
}

function noteEnd(state: WatchState, own: Pass, result: string, is_whole: boolean): void {
  const { context } = state
  Object.assign(own, { ended_at: context.clock.now(), result })
  if (isLast(state, own)) context.compared?.(is_whole)
}

/** Whether no later pass has begun. Otherwise the result of this late pass is outdated and ignored. */
function isLast({ last }: WatchState, own: Pass): boolean {
  return last === own
}

async function stayInContact(state: WatchState): Promise<void> {
  const { context, signal } = state
  for (let wait_ms = RETRY_MS_MIN; !signal.aborted; wait_ms = Math.min(wait_ms * 2, RETRY_MS_MAX)) {
    const began_ms = performance.now()
    try {
      await follow(state)
      state.trouble = 'the host has started again'
    } catch (error) {
      state.trouble = troubleOf(error)
      context.log.warn({ err: error, trouble: state.trouble }, 'the machine host is out of contact')
    }
    state.in_contact = false
    if (performance.now() - began_ms > SWEEP_MS) wait_ms = RETRY_MS_MIN
    await setTimeout(wait_ms, undefined, { signal }).catch(() => undefined) // aborted: the loop ends
  }
}

async function follow(state: WatchState): Promise<void> {
  const { context, signal } = state
  const { last_event, boot_id } = await context.host.glance()
  const stream = context.host.events(last_event, signal)
  // The stream reports deaths after last_event, and this pass covers all earlier ones.
  await sweep(state)
  state.in_contact = true
  state.trouble = null
  state.ready.resolve()
  for await (const event of stream) {
    if (event.boot_id !== boot_id) return // events are numbered from the start again: make a full pass
    await handle(context, event)
  }
}

/** The text is for operators only, because a refusal of the host names the owner of its pool. */
function troubleOf(error: unknown): string {
  return error instanceof HostFailure ? error.message : 'the reconciler could not compare rows and host: the log has the reason'
}

async function handle(context: ReconcileContext, event: HostEvent): Promise<void> {
  if (event.kind !== 'died') return
  // The work of an execution or a build fails, and its owner cleans up.
  if (!isWorkspace(event)) return context.guests?.died(event)
  const { subject, epoch, fence, reason } = event
  const workspace_id = subject.id
  context.log.warn({ workspace_id, epoch, reason }, 'a machine died')
  context.metrics?.died(reason)
  // The table first: a commit under way checks there whether its machine still lives.
  context.table.endMachine(workspace_id, fence, 'died')
  const row = await stateOf(context.db, workspace_id)
  // Checked after the row was read: the table has a machine that was restored since before the row names its disk.
  if (context.table.hasSuccessor(workspace_id, fence)) return
  if (row?.ownership_epoch === epoch) await settle(context.db, row, 'died', context.clock.now())
  context.room?.released()
}
