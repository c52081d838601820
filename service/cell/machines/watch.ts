import { setTimeout } from 'node:timers/promises'
import { HostFailure, type HostEvent, type Inventory } from '../links/hostd.ts'
import { reconcile } from './reconcile.ts'
import { settle, stateOf } from './reconcile-store.ts'
import type { ReconcileContext } from './sweep.ts'
import { isWorkspace } from '../links/subject.ts'
import { bounded, TookTooLong } from './ticking.ts'

const RETRY_MS_MIN = 100
const RETRY_MS_MAX = 2000
const SWEEP_MS = 60_000
/**
 * The next comparison does not wait longer for the one before. That one goes on: the host refuses what it asks about a workspace after the
 * next one has spoken of it, by its lower fence.
 */
const LATE_MS = 30_000

/** Times of comparisons, as tests have them. */
export interface Comparing {
  /** Between two that nothing has asked for. */
  regular_ms?: number
  /** How long the next one waits for the one before. */
  late_ms?: number
  /** How long one stays with one workspace. */
  one_ms?: number
}

export interface Watch {
  /** Resolves after the first full comparison. */
  ready: Promise<void>
  /** Compares soon: something may have been left. */
  sweepSoon(): void
  /** Compares now. */
  sweep(): Promise<void>
  ended: Promise<void>
  /** The host's events are followed: it is there. */
  in_contact(): boolean
  /** Why there was no comparison yet, or no contact since; null while there is. */
  trouble(): string | null
  /** For failures and logs. */
  state(): object
}

/**
 * Follows the machine host: a full comparison first, deaths as they are told from then on, and a full comparison again whenever
 * contact was lost, since nothing that was told meanwhile was heard.
 */
export function watchHost(
  context: ReconcileContext,
  signal: AbortSignal,
  seen: (inventory: Inventory) => Promise<void>,
  { regular_ms = SWEEP_MS, late_ms = LATE_MS }: Comparing = {},
): Watch {
  const ready = Promise.withResolvers<void>()
  let sweeping: Promise<void> = Promise.resolve()
  let asked = false
  let in_contact = false
  let begun = false
  let last: { began_at: Date; ended_at: Date | null; result: string } | null = null
  let trouble: string | null = 'rows and host are being compared'

  const compare = async () => {
    asked = false
    if (signal.aborted) return
    const own = { began_at: context.clock.now(), ended_at: null as Date | null, result: 'under way' }
    last = own
    const noteEnd = (result: string, is_whole: boolean) => {
      Object.assign(own, { ended_at: context.clock.now(), result })
      if (last === own) context.compared?.(is_whole)
    }
    try {
      const compareGuests = context.guests?.comparing()
      const { inventory, is_whole } = await reconcile(context, !begun)
      begun = true
      if (last === own) {
        compareGuests?.(inventory.machines)
        await seen(inventory)
      }
      noteEnd(is_whole ? 'put right all that it found' : 'could not put right all that it found', is_whole)
    } catch (error) {
      noteEnd(String(error), false)
      throw error
    }
  }
  const sweep = (): Promise<void> => {
    const next = sweeping.then(compare)
    const late = () => context.log.warn('a comparison takes long: the next one does not wait for it')
    // Nothing else acts for the cell until the first one of a term has ended.
    const end = () => (begun ? bounded(late_ms, 'a comparison', next) : next)
    sweeping = sweeping.then(end).catch((error: unknown) => {
      if (!(error instanceof TookTooLong)) return
      late()
      context.compared?.(false)
    })
    return next
  }
  const sweepSoon = () => {
    if (asked) return
    asked = true
    sweep().catch((error: unknown) => context.log.warn({ err: error }, 'could not reconcile'))
  }
  const follow = async () => {
    const { last_event, boot_id } = await context.host.glance()
    const stream = context.host.events(last_event, signal)
    // Deaths are told from last_event on, and everything before it is in the comparison.
    await sweep()
    in_contact = true
    trouble = null
    ready.resolve()
    for await (const event of stream) {
      if (event.boot_id !== boot_id) return // counted anew: compare anew
      await handle(context, event)
    }
  }
  const loop = async () => {
    for (let wait_ms = RETRY_MS_MIN; !signal.aborted; wait_ms = Math.min(wait_ms * 2, RETRY_MS_MAX)) {
      const began_ms = performance.now()
      try {
        await follow()
      } catch (error) {
        trouble = troubleOf(error)
        context.log.warn({ err: error, trouble }, 'the machine host is out of contact')
      }
      in_contact = false
      if (performance.now() - began_ms > SWEEP_MS) wait_ms = RETRY_MS_MIN
      await setTimeout(wait_ms, undefined, { signal }).catch(() => undefined) // aborted: the loop ends
    }
  }
  const timer = setInterval(sweepSoon, regular_ms)
  const ended = loop().finally(() => clearInterval(timer))
  const state = () => ({ last, asked, in_contact, trouble })
  return { ready: ready.promise, sweepSoon, sweep, ended, in_contact: () => in_contact, trouble: () => trouble, state }
}

/** For operators, who alone see it: a host that refuses says whose its pool is. */
function troubleOf(error: unknown): string {
  return error instanceof HostFailure ? error.message : 'rows and host could not be compared: the log says why'
}

async function handle(context: ReconcileContext, event: HostEvent): Promise<void> {
  if (event.kind !== 'died') return
  // What an execution or a build waits for fails, and it tidies up itself.
  if (!isWorkspace(event)) return context.guests?.died(event)
  const { subject, epoch, fence, reason } = event
  const workspace_id = subject.id
  context.log.warn({ workspace_id, epoch, reason }, 'a machine died')
  context.metrics?.died(reason)
  // First in memory: a commit that is under way asks there whether the machine that it commits still lives.
  context.table.endMachine(workspace_id, fence, 'died')
  const row = await stateOf(context.db, workspace_id)
  // Asked after the row was read: one that was restored since is in the table before the row names its disk.
  if (context.table.hasSuccessor(workspace_id, fence)) return
  if (row?.ownership_epoch === epoch) await settle(context.db, row, 'died', context.clock.now())
  context.room?.freed()
}
