import type { Logger } from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Ids } from '../../lib/ids.ts'
import type { MachineHost } from '../host/hostd.ts'
import { EVICTIONS_MAX } from './eviction-rules.ts'
import { freeze, thaw, thawByHost, type ThawByHost } from './freeze.ts'
import { hibernate } from './hibernate.ts'
import type { MachineMetrics, ParkingMove } from './parking-moves.ts'
import type { CapacityAllocator } from '../capacity/allocator.ts'
import type { LiveTable } from './live-table.ts'
import { wakeFailed } from './parking-refusals.ts'
import { createSaveFailures, type SaveFailures, type WhyHibernate } from './save-failures.ts'
import type { ResidencyState, WorkspaceEntry } from './table.ts'
import type { LiveMachine } from '../host/live-machine.ts'
import { createSemaphore } from '../../lib/bounded.ts'
import { withTimeout } from '../../lib/poll.ts'
import { wakeHibernated } from './wake-hibernated.ts'

export interface ParkingContext {
  cell_id: string
  db: Db
  clock: Clock
  ids: Ids
  host: MachineHost
  table: LiveTable
  room: CapacityAllocator
  log: Logger
  metrics?: Pick<MachineMetrics, 'moved'>
  /** For tests: tries of a hibernation before it leaves the rest to the reconciler. */
  tries_max?: number
}

export interface Waking {
  /** The machine if it runs; null: it must be woken first. Never waits. */
  ready(entry: WorkspaceEntry): LiveMachine | null
  /**
   * Resolves when the caller should check the workspace again; rejects with the refusal of the call. The caller must hold it awake,
   * or it may be parked again before the check.
   */
  wake(entry: WorkspaceEntry): Promise<void>
  /** Announces a tool call and begins to wake the machine. @returns its residency before. */
  hint(entry: WorkspaceEntry): ResidencyState
}

/** Transitions between running and parked: one at a time for a machine, and none during an operation. */
export interface Parking extends Waking {
  /** Freezes it, unless the workspace is used. */
  freeze(seen: WorkspaceEntry): Promise<void>
  /** Saves it to the disk and releases its memory, unless the workspace is used or enough are being saved. */
  hibernate(seen: WorkspaceEntry, why?: WhyHibernate): Promise<void>
  /** The last failure of its save, with the time of the retry; null: it did not fail. */
  saveFailed: SaveFailures['last']
  /** For an operation that holds the workspace: waits for a transition under way, then thaws it with the operation's own fence. */
  thawForOperation(workspace_id: string, by_host: ThawByHost): Promise<void>
  /** Workspaces with a transition under way. */
  inTransition(): string[]
  /** Resolves when no transition is under way. */
  transitionEnded(workspace_id: string): Promise<void>
  /** undefined: this process has not woken it. */
  wokenAt(workspace_id: string): Date | undefined
  hintedUntil(workspace_id: string): Date | null
  forgetOthers(known: ReadonlySet<string>): void
}

/** Whether the workspace is still idle and still has the machine that was read. */
export type MayPark = (entry: WorkspaceEntry | undefined, machine: LiveMachine) => boolean

/** Captures write at the speed of the disk: more at once would only slow each other. Evictions may be more, as small ones overlap. */
const HIBERNATIONS_MAX: Record<WhyHibernate, number> = { unused: 2, room: EVICTIONS_MAX }
/** Restores read and map at the speed of the disk: more at once would slow each other, and delay starts. */
const WAKES_MAX = 8

interface Moving {
  kind: 'freeze' | 'hibernate' | 'wake'
  done: Promise<void>
}

export function createParking(context: ParkingContext): Parking {
  const { table, clock, log } = context
  const moves = new Map<string, Moving>()
  const woken = new Map<string, Date>()
  const hints = new Map<string, Date>()
  const inTurn = createSemaphore(WAKES_MAX)
  const failures = createSaveFailures(clock)

  const hintedUntil = (workspace_id: string): Date | null => {
    const hinted_at = hints.get(workspace_id)
    const called_at = table.activity.lastToolCall(workspace_id)
    if (hinted_at === undefined || (called_at !== undefined && called_at >= hinted_at)) return null
    return new Date(hinted_at.getTime() + LIMITS.idle.wake_hint_seconds * 1000)
  }
  /** Joins the transition under way, of any kind: a caller that wants another kind checks again afterwards. */
  const move = (workspace_id: string, kind: Moving['kind'], work: () => Promise<unknown>): Promise<void> => {
    const known = moves.get(workspace_id)
    if (known !== undefined) return known.done
    const { promise: entered, resolve: enter } = Promise.withResolvers<void>()
    const done = entered
      .then(work)
      .then(() => undefined)
      .finally(() => moves.delete(workspace_id))
    moves.set(workspace_id, { kind, done })
    enter()
    return done
  }
  const counted = async (kind: ParkingMove, work: Promise<boolean>): Promise<boolean> => {
    const moved = await work
    if (moved) context.metrics?.moved(kind)
    return moved
  }
  const thawed = (workspace_id: string, by_host: ThawByHost) => counted('thaw', thaw(context, workspace_id, by_host))
  const still = async (workspace_id: string) => {
    await moves.get(workspace_id)?.done.catch(() => undefined) // the caller of the transition gets its error
  }
  const wakeUp = (entry: WorkspaceEntry) =>
    entry.machine === null
      ? counted('wake', wakeHibernated(context, entry.id, entry.ownership_epoch, inTurn))
      : thawed(entry.id, (machine) => thawByHost(context, entry.id, machine))
  const wake = (entry: WorkspaceEntry): Promise<void> => {
    const known = moves.get(entry.id)
    if (known !== undefined) return known.kind === 'wake' ? known.done : still(entry.id)
    if (ready(entry) !== null) return Promise.resolve()
    woken.set(entry.id, clock.now())
    return move(entry.id, 'wake', () => wakeUp(entry))
  }
  /** Wakes a machine that is just being parked too, after that has ended. */
  const rise = async (entry: WorkspaceEntry) => {
    await wake(entry)
    const now = table.get(entry.id)
    if (now !== undefined && ready(now) === null) await wake(now)
  }
  const mayPark: MayPark = (entry, machine) =>
    entry !== undefined &&
    entry.observed_state === 'running' &&
    entry.hold === null &&
    entry.machine?.fence === machine.fence &&
    !table.activity.inUse(entry.id) &&
    !isAhead(entry.keepalive_until, clock.now()) &&
    !isAhead(hintedUntil(entry.id), clock.now())
  const ready = (entry: WorkspaceEntry) => (moves.has(entry.id) || entry.machine?.state === 'frozen' ? null : entry.machine)
  const save = async (workspace_id: string, machine: LiveMachine) => {
    try {
      if (await counted('hibernate', hibernate(context, workspace_id, machine, mayPark))) failures.forget(workspace_id)
    } catch (error) {
      failures.note(workspace_id, error)
      throw error
    }
  }
  const residencyOf = (entry: WorkspaceEntry): ResidencyState => {
    if (entry.machine !== null) return entry.machine.state === 'frozen' ? 'frozen' : 'resident'
    return moves.get(entry.id)?.kind === 'wake' ? 'restoring' : entry.residency
  }

  return {
    ready,
    // The transition goes on; only the call stops waiting.
    wake: (entry) => withTimeout(LIMITS.idle.wake_seconds_max * 1000, wakeFailed, wake(entry)),
    hint(entry) {
      hints.set(entry.id, clock.now())
      const was = residencyOf(entry)
      rise(entry).catch((error: unknown) => log.debug({ err: error }, 'a hint woke nothing'))
      return was
    },
    async freeze({ id, machine }) {
      if (machine?.state === 'running') await move(id, 'freeze', () => counted('freeze', freeze(context, id, machine, mayPark)))
    },
    async hibernate({ id, machine }, why = 'unused') {
      if (machine?.engine_refused) return // it stays frozen: once saved, its memory could not be restored
      const saving = [...moves.values()].filter(({ kind }) => kind === 'hibernate').length
      if (machine === null || saving >= HIBERNATIONS_MAX[why] || isAhead(failures.last(id)?.again_at[why] ?? null, clock.now())) return
      await move(id, 'hibernate', () => save(id, machine))
    },
    async thawForOperation(workspace_id, by_host) {
      await still(workspace_id)
      await move(workspace_id, 'wake', () => thawed(workspace_id, by_host))
    },
    saveFailed: failures.last,
    inTransition: () => [...moves.keys()],
    transitionEnded: still,
    wokenAt: (workspace_id) => woken.get(workspace_id),
    hintedUntil,
    forgetOthers(known) {
      for (const one of [woken, hints]) for (const id of one.keys()) if (!known.has(id)) one.delete(id)
      failures.forgetOthers(known)
    },
  }
}

function isAhead(date: Date | null, now: Date): boolean {
  return date !== null && date > now
}
