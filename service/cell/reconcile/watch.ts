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
 * The next pass waits no longer than this for the one before. The late pass goes on: the host refuses its lower fence for workspaces that
 * the next one has commanded.
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
  /** Whether events of the host arrive. */
  in_contact(): boolean
  /** Why there was no pass yet, or no contact since; null while there is contact. */
  trouble(): string | null
  state(): object
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
    // No other part of the cell acts until the first pass of a term has ended.
    const end = () => (begun ? withTimeout(late_ms, 'a comparison', next) : next)
    sweeping = sweeping.then(end).catch((error: unknown) => {
      if (!(error instanceof TimedOut)) return
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
    // Deaths after last_event come as events; the pass covers all earlier ones.
    await sweep()
    in_contact = true
    trouble = null
    ready.resolve()
    for await (const event of stream) {
      if (event.boot_id !== boot_id) return // events are numbered from the start again: make a full pass
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

/** For operators only: a refusal of the host names the owner of its pool. */
function troubleOf(error: unknown): string {
  return error instanceof HostFailure ? error.message : 'rows and host could not be compared: the log says why'
}

async function handle(context: ReconcileContext, event: HostEvent): Promise<void> {
  if (event.kind !== 'died') return
  // The work of an execution or a build fails, and its owner cleans up.
  if (!isWorkspace(event)) return context.guests?.died(event)
  const { subject, epoch, fence, reason } = event
  const workspace_id = subject.id
  context.log.warn({ workspace_id, epoch, reason }, 'a machine died')
  context.metrics?.died(reason)
  // Memory first: a commit under way asks there whether its machine still lives.
  context.table.endMachine(workspace_id, fence, 'died')
  const row = await stateOf(context.db, workspace_id)
  // Checked after the row was read: a machine that was restored since is in the table before the row names its disk.
  if (context.table.hasSuccessor(workspace_id, fence)) return
  if (row?.ownership_epoch === epoch) await settle(context.db, row, 'died', context.clock.now())
  context.room?.released()
}
