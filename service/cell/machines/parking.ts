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
import { withTimeout } from '../../lib/poll.ts'
import { createSemaphore } from '../../lib/bounded.ts'
import { wakeHibernated, type RestoreSemaphore } from './wake-hibernated.ts'

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
  /** For tests: number of tries before a hibernation ends and the reconciler repairs the rest. */
  tries_max?: number
}

export interface Waking {
  /** @returns the machine if it runs; null: the machine must be woken first. Never waits. */
  ready(entry: WorkspaceEntry): LiveMachine | null
  /**
   * Resolves when the caller should check the workspace again; rejects with the refusal of the call.
   * The caller must hold the workspace awake, or it may be parked again before the check.
   */
  wake(entry: WorkspaceEntry): Promise<void>
  /** Announces a tool call and begins to wake the machine. @returns the residency before the call. */
  hint(entry: WorkspaceEntry): ResidencyState
}

/** Transitions between running and parked: one at a time for a machine, and none during an operation. */
export interface Parking extends Waking {
  /** Freezes the machine, unless the workspace is used. */
  freeze(seen: WorkspaceEntry): Promise<void>
  /** Saves the machine to the disk and releases its memory, unless the workspace is used or enough machines are being saved. */
  hibernate(seen: WorkspaceEntry, why?: WhyHibernate): Promise<void>
  /** The last failed save of the workspace, with the time of the retry; null: its last save did not fail. */
  saveFailed: SaveFailures['last']
  /** For an operation that holds the workspace: waits for a transition under way, then thaws it with the operation's own fence. */
  thawForOperation(workspace_id: string, by_host: ThawByHost): Promise<void>
  /** Workspaces with a transition under way. */
  inTransition(): string[]
  /** Resolves when no transition is under way. */
  transitionEnded(workspace_id: string): Promise<void>
  /** undefined: this process has not woken the workspace. */
  wokenAt(workspace_id: string): Date | undefined
  hintedUntil(workspace_id: string): Date | null
  forgetOthers(known: ReadonlySet<string>): void
}

/** Whether the workspace is still idle and still has the machine that was read. */
export type MayPark = (entry: WorkspaceEntry | undefined, machine: LiveMachine) => boolean

/**
 * Captures write at the speed of the disk, so more at once would slow each other. More evictions are allowed, because small ones overlap.
 */
const HIBERNATIONS_MAX: Record<WhyHibernate, number> = { unused: 2, room: EVICTIONS_MAX }
/** Restores read and map at the speed of the disk. More at once would slow each other, and delay starts. */
const WAKES_MAX = 8

interface Transition {
  kind: 'freeze' | 'hibernate' | 'wake'
  done: Promise<void>
}

interface ParkingState {
  readonly context: ParkingContext
  /** The transition under way of each workspace. */
  readonly transitions: Map<string, Transition>
  readonly woken_at: Map<string, Date>
  /** When a tool call was last announced. */
  readonly hinted_at: Map<string, Date>
  readonly restores: RestoreSemaphore
  readonly failures: SaveFailures
}

export function createParking(context: ParkingContext): Parking {
  const state: ParkingState = {
    context,
    transitions: new Map(),
    woken_at: new Map(),
    hinted_at: new Map(),
    restores: createSemaphore(WAKES_MAX),
    failures: createSaveFailures(context.clock),
  }
  return {
    ready: (entry) => ready(state, entry),
    // If the time is over, only the call stops waiting: the transition continues.
    wake: (entry) => withTimeout(LIMITS.idle.wake_seconds_max * 1000, wakeFailed, wake(state, entry)),
    hint: (entry) => hint(state, entry),
    freeze: (seen) => freezeUnused(state, seen),
    hibernate: (seen, why) => hibernateUnused(state, seen, why),
    thawForOperation: (workspace_id, by_host) => thawForOperation(state, workspace_id, by_host),
    saveFailed: state.failures.last,
    inTransition: () => [...state.transitions.keys()],
    transitionEnded: (workspace_id) => transitionEnded(state, workspace_id),
    wokenAt: (workspace_id) => state.woken_at.get(workspace_id),
    hintedUntil: (workspace_id) => hintedUntil(state, workspace_id),
    forgetOthers: (known) => forgetOthers(state, known),
  }
}

function ready({ transitions }: ParkingState, entry: WorkspaceEntry): LiveMachine | null {
  return transitions.has(entry.id) || entry.machine?.state === 'frozen' ? null : entry.machine
}

function wake(state: ParkingState, entry: WorkspaceEntry): Promise<void> {
  const { context, transitions, woken_at } = state
  const known = transitions.get(entry.id)
  if (known !== undefined) return known.kind === 'wake' ? known.done : transitionEnded(state, entry.id)
  if (ready(state, entry) !== null) return Promise.resolve()
  woken_at.set(entry.id, context.clock.now())
  return begin(state, entry.id, 'wake', () => wakeMachine(state, entry))
}

function wakeMachine(state: ParkingState, entry: WorkspaceEntry): Promise<boolean> {
  const { context, restores } = state
  return entry.machine === null
    ? counted(context, 'wake', wakeHibernated(context, entry.id, entry.ownership_epoch, restores))
    : thawCounted(context, entry.id, (machine) => thawByHost(context, entry.id, machine))
}

function hint(state: ParkingState, entry: WorkspaceEntry): ResidencyState {
  const { clock, log } = state.context
  state.hinted_at.set(entry.id, clock.now())
  const was = residencyOf(state, entry)
  wakeAfterTransition(state, entry).catch((error: unknown) => log.debug({ err: error }, 'a wake hint did not wake its workspace'))
  return was
}

/** Wakes a machine. If the machine is just being parked, the wake follows the end of that transition. */
async function wakeAfterTransition(state: ParkingState, entry: WorkspaceEntry): Promise<void> {
  await wake(state, entry)
  const now = state.context.table.get(entry.id)
  if (now !== undefined && ready(state, now) === null) await wake(state, now)
}

function residencyOf({ transitions }: ParkingState, entry: WorkspaceEntry): ResidencyState {
  if (entry.machine !== null) return entry.machine.state === 'frozen' ? 'frozen' : 'resident'
  return transitions.get(entry.id)?.kind === 'wake' ? 'restoring' : entry.residency
}

async function freezeUnused(state: ParkingState, { id, machine }: WorkspaceEntry): Promise<void> {
  if (machine?.state !== 'running') return
  const { context } = state
  await begin(state, id, 'freeze', () => counted(context, 'freeze', freeze(context, id, machine, mayParkIn(state))))
}

async function hibernateUnused(state: ParkingState, { id, machine }: WorkspaceEntry, why: WhyHibernate = 'unused'): Promise<void> {
  if (machine?.engine_refused) return // not hibernated: once saved, its memory could not be restored
  const { context, transitions, failures } = state
  const saving = [...transitions.values()].filter(({ kind }) => kind === 'hibernate').length
  if (machine === null || saving >= HIBERNATIONS_MAX[why]) return
  if (isAhead(failures.last(id)?.again_at[why] ?? null, context.clock.now())) return
  await begin(state, id, 'hibernate', () => save(state, id, machine))
}

async function save(state: ParkingState, workspace_id: string, machine: LiveMachine): Promise<void> {
  const { context, failures } = state
  try {
    const saved = await counted(context, 'hibernate', hibernate(context, workspace_id, machine, mayParkIn(state)))
    if (saved) failures.forget(workspace_id)
  } catch (error) {
    failures.note(workspace_id, error)
    throw error
  }
}

function mayParkIn(state: ParkingState): MayPark {
  const { table, clock } = state.context
  return (entry, machine) =>
    entry !== undefined &&
    entry.observed_state === 'running' &&
    entry.hold === null &&
    entry.machine?.fence === machine.fence &&
    !table.activity.inUse(entry.id) &&
    !isAhead(entry.keepalive_until, clock.now()) &&
    !isAhead(hintedUntil(state, entry.id), clock.now())
}

function hintedUntil({ context, hinted_at }: ParkingState, workspace_id: string): Date | null {
  const hinted = hinted_at.get(workspace_id)
  const called = context.table.activity.lastToolCall(workspace_id)
  if (hinted === undefined || (called !== undefined && called >= hinted)) return null
  return new Date(hinted.getTime() + LIMITS.idle.wake_hint_seconds * 1000)
}

async function thawForOperation(state: ParkingState, workspace_id: string, by_host: ThawByHost): Promise<void> {
  await transitionEnded(state, workspace_id)
  await begin(state, workspace_id, 'wake', () => thawCounted(state.context, workspace_id, by_host))
}

function thawCounted(context: ParkingContext, workspace_id: string, by_host: ThawByHost): Promise<boolean> {
  return counted(context, 'thaw', thaw(context, workspace_id, by_host))
}

/** Returns the promise of a transition under way, of any kind. A caller that wants another kind checks again afterwards. */
function begin({ transitions }: ParkingState, workspace_id: string, kind: Transition['kind'], work: () => Promise<unknown>): Promise<void> {
  const known = transitions.get(workspace_id)
  if (known !== undefined) return known.done
  const { promise: entered, resolve: enter } = Promise.withResolvers<void>()
  const done = entered
    .then(work)
    .then(() => undefined)
    .finally(() => transitions.delete(workspace_id))
  transitions.set(workspace_id, { kind, done })
  enter()
  return done
}

async function transitionEnded({ transitions }: ParkingState, workspace_id: string): Promise<void> {
  await transitions.get(workspace_id)?.done.catch(() => undefined) // ignored here: the caller of the transition gets its error
}

async function counted(context: ParkingContext, kind: ParkingMove, work: Promise<boolean>): Promise<boolean> {
  const moved = await work
  if (moved) context.metrics?.moved(kind)
  return moved
}

function forgetOthers({ woken_at, hinted_at, failures }: ParkingState, known: ReadonlySet<string>): void {
  for (const one of [woken_at, hinted_at]) for (const id of one.keys()) if (!known.has(id)) one.delete(id)
  failures.forgetOthers(known)
}

function isAhead(date: Date | null, now: Date): boolean {
  return date !== null && date > now
}
