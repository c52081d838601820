import { setTimeout } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Machine } from '../../../contract/internal/host-inventory.ts'
import type { CommandHeader } from '../../../contract/internal/host-subject.ts'
import type { Db } from '../../db/database.ts'
import type { OperationError } from '../../db/column-types.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Ids } from '../../lib/ids.ts'
import type { AgentLinks } from '../host/agent.ts'
import type { GuestLinks } from '../host/guest-links.ts'
import { HostFailure, type MachineHost } from '../host/hostd.ts'
import type { LiveTable } from '../machines/live-table.ts'
import type { Parking } from '../machines/parking.ts'
import type { Secrets } from '../policies/secrets/resolve.ts'
import type { CapacityAllocator } from '../capacity/allocator.ts'
import type { Executions } from '../filetree/executions/executions.ts'
import type { Trees } from '../filetree/trees/trees.ts'
import type { OpenOperation } from './store.ts'
import { readMachineRow, type MachineRow, LostRace } from '../machines/machine-row-store.ts'
import { isWorkspace, workspaceSubject } from '../host/subject.ts'

export interface CellContext {
  cell_id: string
  db: Db
  clock: Clock
  ids: Ids
  host: MachineHost
  table: LiveTable
  room: CapacityAllocator
  parking: Parking
  agents: Pick<AgentLinks, 'greet' | 'of'>
  guests?: GuestLinks
  secrets: Pick<Secrets, 'valuesFor' | 'trust'>
  trees: Trees
  executions: Pick<Executions, 'recover' | 'endAbandoned'>
  /** Absent or empty: this installation stores no uploads. */
  uploads_dir?: string
  log: Logger
}

export interface Job {
  cell: CellContext
  operation: OpenOperation
  /** The workspace's row as claimed; undefined before the claim. */
  seen?: MachineRow
  signal: AbortSignal
  /** Releases the permit of the job, because the guest's start-up may take long. */
  waitsForGuest?: () => void
}

export interface OperationKind {
  /** Must be safe to repeat from any point. */
  drive(job: Job): Promise<void>
  /** Restores the state before the operation; never runs after the commit. null: the operation cannot be undone. */
  undo: ((job: Job, error: OperationError) => Promise<void>) | null
  errorOf(failure: HostFailure): OperationError
}

const RETRY_MS_MIN = 50
const RETRY_MS_MAX = 1000

/**
 * A retry has the same fence and step, so it joins a call that may still run. A refused fence means that a later attempt or operation has
 * taken over.
 * @param step differs for each call of an attempt: two calls with one name count as one
 */
export async function callHost<T>(
  job: Job,
  workspace_id: string,
  step: string,
  epoch: number,
  verb: (fence: CommandHeader) => Promise<T>,
): Promise<T> {
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

export async function callHostUnless(job: Job, excused: readonly string[], ...rest: AskTail<void>): Promise<boolean> {
  try {
    await callHost(job, ...rest)
    return true
  } catch (error) {
    if (error instanceof HostFailure && excused.includes(error.code)) return false
    throw error
  }
}
type AskTail<T> = Parameters<typeof callHost<T>> extends [Job, ...infer Tail] ? Tail : never

/** The row needs no further read: the claim prevents every other writer from changing the machine. */
export async function claimedRow(job: Job): Promise<MachineRow> {
  return job.seen ?? (await readMachineRow(job.cell.db, job.operation.workspace_id))
}

/** The first call of a later attempt: ends or joins the calls of an earlier attempt on the host. */
export async function takeOver(job: Job, workspace_id: string, epoch: number): Promise<void> {
  await callHost(job, workspace_id, 'fence', epoch, (fence) => job.cell.host.fence(fence))
}

/**
 * Time for running calls to end. Longer calls and streams are silent during the capture; a commit ends them, and otherwise they continue.
 */
const DRAIN_MS = 1000

/** Reads the closed admission into memory first: otherwise further calls would be admitted, and the calls could not drain. */
export async function prepareCapture(job: Job, workspace_id: string): Promise<void> {
  const { cell } = job
  const entry = await cell.table.fresh(workspace_id)
  // An interrupted wake may have left a machine that the workspace never owned. The machine is stopped.
  if (entry?.residency === 'restoring') {
    const machine_epoch = entry.ownership_epoch
    await callHost(job, workspace_id, 'stop-unborn', machine_epoch, (fence) => cell.host.stop({ ...fence, machine_epoch }))
  }
  await cell.parking.thawForOperation(workspace_id, async ({ epoch }) => {
    // A machine that has ended is ignored here, because the capture fails later.
    await callHostUnless(job, ['not_running', 'not_found'], workspace_id, 'thaw', epoch, (fence) => cell.host.thaw(fence))
  })
  await cell.table.activity.drained(workspace_id, DRAIN_MS)
}

export async function findMachine(job: Job, workspace_id: string): Promise<Machine | undefined> {
  const { machines } = await callHost(job, workspace_id, 'inventory', 0, () => job.cell.host.glance())
  return machines.find((machine) => isWorkspace(machine) && machine.subject.id === workspace_id)
}

/** Cleanup whose failure is ignored, because the reconciler removes the rest. */
export async function tidy(job: Job, what: string, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    job.cell.log.debug({ operation_id: job.operation.id, what, err: error }, 'left to the reconciler')
  }
}
