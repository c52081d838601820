import { setTimeout } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Db } from '../../db/database.ts'
import type { OperationError } from '../../db/schema.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Ids } from '../../lib/ids.ts'
import type { AgentLinks } from '../links/agent.ts'
import type { GuestLinks } from '../links/guest-links.ts'
import { HostFailure, type Fence, type Machine, type MachineHost } from '../links/hostd.ts'
import type { LiveTable } from '../machines/live-table.ts'
import type { Parking } from '../machines/parking.ts'
import type { Secrets } from '../secrets/resolve.ts'
import type { Room } from '../room/room.ts'
import type { Executions } from '../executions/executions.ts'
import type { Trees } from '../trees/trees.ts'
import { LostRace, readMachineRow, type MachineRow, type OpenOperation } from './store.ts'
import { isWorkspace, workspaceSubject } from '../links/subject.ts'

/** What every operation works with. */
export interface CellContext {
  cell_id: string
  db: Db
  clock: Clock
  ids: Ids
  host: MachineHost
  table: LiveTable
  room: Room
  parking: Parking
  agents: Pick<AgentLinks, 'greet' | 'of'>
  /** A test does without. */
  guests?: GuestLinks
  secrets: Pick<Secrets, 'valuesFor' | 'trust'>
  trees: Trees
  executions: Pick<Executions, 'recover' | 'endAbandoned'>
  /** Where the bytes of uploads are; absent or empty: none are kept. */
  uploads_dir?: string
  log: Logger
}

/** One attempt at one operation. */
export interface Job {
  cell: CellContext
  operation: OpenOperation
  /** Its workspace as the claim has left it; undefined where nothing was claimed yet. */
  seen?: MachineRow
  /** Fires when this process may no longer act for the cell. */
  signal: AbortSignal
  /** What is left waits for the guest alone: it may take its time, and nobody waits for its place. */
  waitsForGuest?: () => void
}

export interface OperationKind {
  /** Carries the operation on from wherever it is. Safe to run again from any point. */
  drive(job: Job): Promise<void>
  /** Ends it as failed and leaves the workspace as it was before. Reached only before the operation's commit. null: it only goes forward. */
  undo: ((job: Job, error: OperationError) => Promise<void>) | null
  /** What a refusal of the machine host means to the caller. */
  errorOf(failure: HostFailure): OperationError
}

const RETRY_MS_MIN = 50
const RETRY_MS_MAX = 1000

/**
 * Asks the machine host for one step. While nobody answers the step waits: asked again with the same fence and step, it joins what
 * may still run. A refused fence means that a later attempt or operation has taken over.
 * @param step names this one call of the attempt: two calls of one name would be one.
 */
export async function ask<T>(job: Job, workspace_id: string, step: string, epoch: number, verb: (fence: Fence) => Promise<T>): Promise<T> {
  const { id: operation_id, fence } = job.operation
  for (let wait_ms = RETRY_MS_MIN; ; wait_ms = Math.min(wait_ms * 2, RETRY_MS_MAX)) {
    job.signal.throwIfAborted()
    try {
      return await verb({ subject: workspaceSubject(workspace_id), operation_id, step, epoch, fence })
    } catch (error) {
      if (!(error instanceof HostFailure)) throw error
      if (error.code === 'fenced') throw new LostRace('The machine')
      if (error.code !== 'unreachable') throw error
      await setTimeout(wait_ms, undefined, { signal: job.signal })
    }
  }
}

/** Like ask, where the refusals named are as good as success. */
export async function askUnless(job: Job, excused: readonly string[], ...rest: AskTail<void>): Promise<boolean> {
  try {
    await ask(job, ...rest)
    return true
  } catch (error) {
    if (error instanceof HostFailure && excused.includes(error.code)) return false
    throw error
  }
}
type AskTail<T> = Parameters<typeof ask<T>> extends [Job, ...infer Tail] ? Tail : never

/** The workspace that the operation is about, as its claim has left it: nobody else may change what concerns its machine since. */
export async function claimedRow(job: Job): Promise<MachineRow> {
  return job.seen ?? (await readMachineRow(job.cell.db, job.operation.workspace_id))
}

/** First step of every attempt but the first: ends or joins what an earlier one left running on the host. */
export async function takeOver(job: Job, workspace_id: string, epoch: number): Promise<void> {
  await ask(job, workspace_id, 'fence', epoch, (fence) => job.cell.host.fence(fence))
}

/**
 * How long calls in progress may take to end before the guest stands still. Calls that take longer, and streams, are silent while
 * it is captured: they end with the commit, or go on as if nothing had been when there is none.
 */
const DRAIN_MS = 1000

/** What comes before every capture: the gate is closed in memory too, nothing is frozen, and what has passed the gate may end. */
export async function quiesce(job: Job, workspace_id: string): Promise<void> {
  const { cell } = job
  const entry = await cell.table.fresh(workspace_id)
  // A wake that was cut short may have left a machine, which never became the workspace's.
  if (entry?.residency === 'restoring') {
    const machine_epoch = entry.ownership_epoch
    await ask(job, workspace_id, 'stop-unborn', machine_epoch, (fence) => cell.host.stop({ ...fence, machine_epoch }))
  }
  await cell.parking.rouse(workspace_id, async ({ epoch }) => {
    // One that died says so to the capture.
    await askUnless(job, ['not_running', 'not_found'], workspace_id, 'thaw', epoch, (fence) => cell.host.thaw(fence))
  })
  await cell.table.activity.drained(workspace_id, DRAIN_MS)
}

/** The workspace's machine as the host sees it. */
export async function findMachine(job: Job, workspace_id: string): Promise<Machine | undefined> {
  const { machines } = await ask(job, workspace_id, 'inventory', 0, () => job.cell.host.glance())
  return machines.find((machine) => isWorkspace(machine) && machine.subject.id === workspace_id)
}

/** Tidying that nothing waits for: what fails here is swept by the reconciler. */
export async function tidy(job: Job, what: string, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    job.cell.log.debug({ operation_id: job.operation.id, what, err: error }, 'left to the reconciler')
  }
}
