import type { Logger } from 'pino'
import type { MachineCounters } from '../../../contract/internal/host-inventory.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import type { MachineHost } from '../host/hostd.ts'
import type { AskActivity } from './activity-query.ts'
import { noteBusy } from './idle-store.ts'
import type { LiveTable } from './live-table.ts'
import type { Parking } from './parking.ts'
import type { AgentCallCounts, AgentCallCounter } from './agent-calls.ts'
import { parkAfterOf, residencyStep, wasBusy, type Counters, type ParkAfter, type ResidencyFacts } from './residency-rules.ts'
import type { WorkspaceEntry } from './table.ts'
import type { LiveMachine } from '../host/live-machine.ts'
import { tickEvery, gapAwarePoller } from '../../lib/poll.ts'
import { isWorkspace } from '../host/subject.ts'

export interface ResidencyContext {
  db: Db
  clock: Clock
  host: Pick<MachineHost, 'stats'>
  table: LiveTable
  parking: Parking
  log: Logger
  park_after: ParkAfter
  ask_activity: AskActivity
  questions: AgentCallCounter
  /** Every workspace counts as used at this time: earlier use was not observed. */
  started_at: Date
}

interface Watched {
  fence: number
  counters: Counters
  looked_ms: number
  busy_at: Date
  busy: { counters: Counters; looked_ms: number }
  ask_again_at: Date
  unsaid: number
}

export type WatchedMachines = Map<string, Watched>

const LOOK_MS = 1000
const ASK_AGAIN_MS = 5000
/**
 * Missing answers (a minute) before the guest counts as idle. The limit prevents that a guest that breaks off each answer is never parked.
 */
const UNSAID_MAX = 12
const MOVES_MAX = 8

export type Parked = WorkspaceEntry & { machine: LiveMachine }

export function startResidencyClock(context: ResidencyContext, signal: AbortSignal, watched?: WatchedMachines): void {
  const { freeze_after_seconds, hibernate_after_seconds } = context.park_after
  if (freeze_after_seconds === 0 && hibernate_after_seconds === 0) return
  const failed = (error: unknown) => context.log.warn({ err: error }, 'the residency clock could not read machines')
  tickEvery(LOOK_MS, residencyClock(context, watched), failed, signal)
}

export function residencyClock(context: ResidencyContext, watched: WatchedMachines = new Map()): () => Promise<void> {
  return gapAwarePoller(context.clock, context.started_at, ({ now, since }) =>
    lookAtResidency({ ...context, started_at: since }, watched, now),
  )
}

export async function lookAtResidency(context: ResidencyContext, watched: WatchedMachines, now: Date = context.clock.now()): Promise<void> {
  const { parking, park_after } = context
  const known = context.table.known()
  parking.forgetOthers(new Set(known.map(({ id }) => id)))
  const machines = known.filter(hasMachine)
  const stepOf = (entry: Parked) => residencyStep(factsOf(context, watched, entry), parkAfterOf(park_after, entry.background), now)
  await watch(
    context,
    watched,
    machines.filter((entry) => isWatched(stepOf(entry))),
  )
  const steps = machines.map((entry) => ({ entry, step: stepOf(entry) }))
  for (let at = 0; at < steps.length; at += MOVES_MAX) {
    await Promise.all(steps.slice(at, at + MOVES_MAX).map(({ entry, step }) => take(context, watched, entry, step, now)))
  }
}

export function hasMachine(entry: WorkspaceEntry): entry is Parked {
  return entry.machine !== null && entry.here && entry.observed_state === 'running'
}

/** Machines are also sampled just before parking, because the counters may have changed since the last sample. */
function isWatched(step: ReturnType<typeof residencyStep>): boolean {
  return step !== 'keep' && step !== 'thaw'
}

export function factsOf(
  { table, parking, started_at }: Pick<ResidencyContext, 'table' | 'parking' | 'started_at'>,
  watched: WatchedMachines,
  entry: Parked,
): ResidencyFacts {
  const { id, machine } = entry
  const seen = watched.get(id)
  return {
    state: machine.state,
    held: entry.hold !== null,
    in_use: table.activity.inUse(id),
    keepalive_until: entry.keepalive_until,
    hinted_until: parking.hintedUntil(id),
    used_at: latest(started_at, table.activity.lastActive(id), parking.wokenAt(id)),
    busy_at: seen?.fence === machine.fence ? seen.busy_at : null,
  }
}

export function latest(first: Date, ...others: (Date | undefined)[]): Date {
  return others.reduce<Date>((last, date) => (date !== undefined && date > last ? date : last), first)
}

async function watch({ host, clock, questions }: ResidencyContext, watched: WatchedMachines, entries: Parked[]): Promise<void> {
  const names = new Set(entries.map(({ id }) => id))
  for (const id of watched.keys()) if (!names.has(id)) watched.delete(id)
  if (entries.length === 0) return
  const ended = new Map(entries.map(({ id, machine }) => [id, questions.of(machine).ended]))
  const counters = new Map((await host.stats()).filter(isWorkspace).map((one) => [one.subject.id, one]))
  for (const { id, machine } of entries) {
    const read = counters.get(id)
    if (read?.fence !== machine.fence) watched.delete(id)
    else watched.set(id, nextWatched(watched.get(id), read, { ended: ended.get(id) ?? 0, begun: questions.of(machine).begun }, clock))
  }
}

function nextWatched(before: Watched | undefined, read: MachineCounters, asked: AgentCallCounts, clock: Clock): Watched {
  const { fence, cpu_usec, rx_bytes, tx_bytes } = read
  const [now, looked_ms] = [clock.now(), clock.monotonic_ms()]
  const counters = { cpu_usec, rx_bytes, tx_bytes, questions_ended: asked.ended, questions_begun: asked.begun }
  // Use before the first sample is unknown, so the machine counts as busy.
  const look = { counters, looked_ms }
  if (before?.fence !== fence) return { fence, ...look, busy_at: now, busy: look, ask_again_at: now, unsaid: 0 }
  // Slow queries would hide small traffic: a query under way at a sample is deducted in both spans.
  // Over the whole time since the machine was busy, each query is deducted once.
  const spans = [before, before.busy]
  if (spans.some((since) => wasBusy(since.counters, counters, looked_ms - since.looked_ms)))
    return { ...before, ...look, busy_at: now, busy: look }
  return { ...before, ...look }
}

async function take(
  context: ResidencyContext,
  watched: WatchedMachines,
  entry: Parked,
  step: ReturnType<typeof residencyStep>,
  now: Date,
): Promise<void> {
  const { parking, log } = context
  const failed = (error: unknown) => log.warn({ workspace_id: entry.id, err: error }, 'could not be parked')
  try {
    if (step === 'thaw') await parking.wake(entry)
    const unused = (step === 'freeze' || step === 'hibernate') && !(await commandsRun(context, watched, entry, now))
    if (unused && step === 'freeze') await parking.freeze(entry)
    // Not awaited, so that the next pass does not wait for the disk.
    if (unused && step === 'hibernate') void parking.hibernate(entry).catch(failed)
  } catch (error) {
    failed(error)
  }
}

/**
 * A guest that does not answer counts as running for a while, until the probe finds out whether it hangs.
 * A parked guest cannot be asked, so the end of its last command is stored before.
 */
export async function commandsRun(
  { db, ask_activity }: Pick<ResidencyContext, 'db' | 'ask_activity'>,
  watched: WatchedMachines,
  entry: Parked,
  now: Date,
): Promise<boolean> {
  if (entry.machine.state === 'frozen') return false // the guest was asked before its freeze, and found without commands
  const seen = watched.get(entry.id)
  if (seen !== undefined && seen.ask_again_at > now) return true
  const said = await ask_activity(entry.machine)
  const unsaid = said === null ? (seen?.unsaid ?? 0) + 1 : 0
  if (said === null ? unsaid < UNSAID_MAX : said.running > 0) {
    if (seen !== undefined) watched.set(entry.id, { ...seen, unsaid, ask_again_at: new Date(now.getTime() + ASK_AGAIN_MS) })
    return true
  }
  if (said !== null && said.last_ended_at !== null) await noteBusy(db, entry.id, said.last_ended_at < now ? said.last_ended_at : now)
  return false
}
