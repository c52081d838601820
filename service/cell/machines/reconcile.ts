import type { Logger } from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Ids } from '../../lib/ids.ts'
import type { Fence, Inventory, Machine, MachineHost, WorkspaceFiles } from '../links/hostd.ts'
import type { CellMetrics, Recovery } from '../metrics.ts'
import type { LiveTable } from './live-table.ts'
import type { Parking } from './parking.ts'
import { endMove } from './parking-store.ts'
import { dropStaleHolds, drawFence, readExpected, settle, settleLostFork, type ExpectedRow } from './reconcile-store.ts'
import type { LiveMachine } from './table.ts'

export interface ReconcileContext {
  cell_id: string
  db: Db
  clock: Clock
  ids: Ids
  host: MachineHost
  table: LiveTable
  log: Logger
  /** Counts what is put right; a test does without. */
  metrics?: Pick<CellMetrics, 'recovered' | 'died'>
  /** Moves between resident and parked put their own things right; a test does without. */
  parking?: Pick<Parking, 'moving'>
}

/** One comparison of what the rows say with what the host has. */
interface Sweep extends ReconcileContext {
  operation_id: string
  fence: number
  did: string[]
  removed: number
  /** Moved when the sweep began: its row and its machine may be of two moments. Later moves have a higher fence. */
  moving: ReadonlySet<string>
}

function report(sweep: Sweep, what: Recovery, text: string): void {
  sweep.did.push(text)
  sweep.metrics?.recovered(what)
}

/**
 * Puts right what a crash, a lost answer or a death has left between rows and host, where no operation is at work: those put their
 * own things right. Rows are read before the inventory: what changes in between either changes the row's state or epoch, by which
 * every write here is guarded, or has drawn a higher fence, by which the host refuses what is done here.
 * @returns the inventory that it went by.
 */
export async function reconcile(context: ReconcileContext): Promise<Inventory> {
  const fence = await drawFence(context.db)
  const moving = new Set(context.parking?.moving()) // asked after the fence is drawn: what moves later has a higher one
  const shown = context.table.known().flatMap(({ id, machine }) => (machine === null ? [] : [{ id, machine }]))
  const rows = await readExpected(context.db, context.cell_id, [])
  const inventory = await context.host.inventory()
  const sweep: Sweep = { ...context, operation_id: context.ids.next(), fence, did: [], removed: 0, moving }
  forgetEnded(sweep, shown, rows, inventory)
  const holds = await dropStaleHolds(context.db)
  if (holds > 0) report(sweep, 'holds_dropped', `dropped ${holds} holds of ended operations`)
  const machines = new Map(inventory.machines.map((machine) => [machine.workspace_id, machine]))
  const files = new Map(inventory.workspaces.map((one) => [one.workspace_id, one]))
  for (const row of rows.values()) await guarded(sweep, row.id, () => compare(sweep, row, machines.get(row.id), files.get(row.id)))
  const holding = inventory.workspaces
    .filter(({ disks, checkpoints }) => disks.length + checkpoints.length > 0)
    .map(({ workspace_id }) => workspace_id)
  await sweepStrangers(sweep, rows, [...new Set([...machines.keys(), ...holding])])
  if (sweep.did.length > 0) context.log.info({ did: sweep.did }, 'reconciled')
  return inventory
}

/** One workspace that cannot be put right must not keep the others from it. */
async function guarded(sweep: Sweep, workspace_id: string, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    sweep.log.warn({ workspace_id, err: error }, 'could not be reconciled')
  }
}

/** What the host has no more. One that another process has parked meanwhile, and maybe woken, has only moved: nothing ends with it. */
function forgetEnded(
  sweep: Sweep,
  shown: { id: string; machine: LiveMachine }[],
  rows: Map<string, ExpectedRow>,
  inventory: Inventory,
): void {
  const there = new Map(inventory.machines.map((machine) => [machine.workspace_id, machine]))
  const moving = new Set([...sweep.moving, ...(sweep.parking?.moving() ?? [])])
  for (const { id, machine } of shown) {
    const found = there.get(id)
    const row = rows.get(id)
    if (found?.fence === machine.fence || moving.has(id)) continue
    const moved = row?.ownership_epoch === machine.epoch && (row.residency !== 'resident' || found?.epoch === machine.epoch)
    if (moved) sweep.table.parkMachine(id, machine.fence)
    else sweep.table.endMachine(id, machine.fence, 'died')
  }
}

function speak(sweep: Sweep, workspace_id: string, epoch: number, step: string): Fence {
  return { workspace_id, operation_id: sweep.operation_id, step: `sweep-${step}`, epoch, fence: sweep.fence }
}

async function compare(sweep: Sweep, row: ExpectedRow, machine: Machine | undefined, files: WorkspaceFiles | undefined): Promise<void> {
  if (sweep.moving.has(row.id)) return
  // What lies in the disk needs no machine: one that is there was not stopped yet, or never became the workspace's.
  const own = machine?.epoch === row.ownership_epoch && row.residency === 'resident' ? machine : undefined
  if (own !== undefined && row.observed_state === 'running') await adopt(sweep, row, own)
  if (row.active) return
  if (row.residency === 'restoring' && !(await endMove(sweep.db, row.id, sweep.fence))) return
  await SETTLE[row.observed_state]?.(sweep, row, own)
  const stray = machine !== undefined && !(own !== undefined && ALIVE.has(row.observed_state))
  if (stray) await stopStray(sweep, row, machine)
  if (files !== undefined) await dropUnnamed(sweep, row, files, stray ? undefined : machine)
}

const ALIVE: ReadonlySet<string> = new Set(['running', 'suspending'])

/** The cell learns anew how to reach what runs. */
async function adopt(sweep: Sweep, row: ExpectedRow, machine: Machine): Promise<void> {
  const { epoch, state } = machine
  sweep.table.putMachine(machine)
  if (row.active) return
  if (state === 'paused') {
    // Whoever paused it to hibernate it, and stands still, may not commit that any more.
    if (!(await endMove(sweep.db, row.id, sweep.fence))) return
    await sweep.host.unpause(speak(sweep, row.id, epoch, 'unpause'))
    report(sweep, 'unpaused', `${row.id}: let the paused guest run again`)
  }
  if (!machine.connected) {
    await sweep.host.connect(speak(sweep, row.id, epoch, 'connect'))
    report(sweep, 'connected', `${row.id}: connected`)
  }
}

type Settle = (sweep: Sweep, row: ExpectedRow, own: Machine | undefined) => Promise<void>

/** What becomes of a state that only an operation may leave, once no operation is left to do so. */
const SETTLE: Partial<Record<ExpectedRow['observed_state'], Settle>> = {
  running: async (sweep, row, own) => {
    if (own === undefined && row.residency === 'resident') await move(sweep, row, 'died')
  },
  creating: (sweep, row) => move(sweep, row, 'start_failed'),
  starting: (sweep, row) => move(sweep, row, 'start_failed'),
  resuming: (sweep, row) => move(sweep, row, 'resume_undone'),
  suspending: async (sweep, row, own) => {
    if (own === undefined && row.residency === 'resident') return move(sweep, row, 'lost')
    if (own?.state === 'paused') await sweep.host.unpause(speak(sweep, row.id, own.epoch, 'unpause'))
    await move(sweep, row, 'suspend_undone')
  },
  forking: async (sweep, row) => {
    if (row.checkpoint_id !== null) return move(sweep, row, 'fork_failed')
    if (await settleLostFork(sweep.db, row, sweep.clock.now())) report(sweep, 'fork_ended', `${row.id}: ended a fork that captured nothing`)
  },
  deleting: async (sweep, row) => {
    await sweep.host.deleteWorkspace(speak(sweep, row.id, row.ownership_epoch, 'delete'))
    await move(sweep, row, 'deleted')
  },
}

async function move(sweep: Sweep, row: ExpectedRow, event: Parameters<typeof settle>[2]): Promise<void> {
  if (await settle(sweep.db, row, event, sweep.clock.now())) report(sweep, 'settled', `${row.id}: ${row.observed_state}, ${event}`)
}

async function stopStray(sweep: Sweep, row: ExpectedRow, machine: Machine): Promise<void> {
  await sweep.host.stop({ ...speak(sweep, row.id, row.ownership_epoch, 'stop'), machine_epoch: machine.epoch })
  // Of a hibernated workspace nothing has ended: it runs on without.
  if (row.residency === 'resident') sweep.table.endMachine(row.id, machine.fence, 'epoch_ended')
  else sweep.table.parkMachine(row.id, machine.fence)
  report(sweep, 'machine_stopped', `${row.id}: stopped a machine of epoch ${machine.epoch}`)
}

/** A delete of many files at once, or a pool that was put back, must not keep deaths and strays waiting. */
function mayRemove(sweep: Sweep): boolean {
  return (sweep.removed += 1) <= LIMITS.removals_per_sweep_max
}

/** Files that no row names: thrown away attempts, and what a commit has superseded. */
async function dropUnnamed(sweep: Sweep, row: ExpectedRow, files: WorkspaceFiles, machine: Machine | undefined): Promise<void> {
  const kept = new Set([row.disk, machine?.disk, ...files.checkpoints.map(({ disk }) => disk)])
  const disks = files.disks.filter((name) => !kept.has(name))
  const checkpoints = files.checkpoints.map(({ checkpoint_id }) => checkpoint_id).filter((id) => !row.checkpoints.includes(id))
  if (disks.length > 0 && mayRemove(sweep)) {
    await sweep.host.deleteDisks({ ...speak(sweep, row.id, row.ownership_epoch, 'disks'), names: disks })
    report(sweep, 'files_deleted', `${row.id}: deleted disks ${disks.join(', ')}`)
  }
  if (checkpoints.length > 0 && mayRemove(sweep)) {
    await sweep.host.deleteCheckpoints({ ...speak(sweep, row.id, row.ownership_epoch, 'checkpoints'), names: checkpoints })
    report(sweep, 'files_deleted', `${row.id}: deleted checkpoints ${checkpoints.join(', ')}`)
  }
}

/** What the host holds for workspaces that are deleted, or that no row has ever named. */
async function sweepStrangers(sweep: Sweep, known: Map<string, ExpectedRow>, found: string[]): Promise<void> {
  const strange = found.filter((id) => !known.has(id))
  if (strange.length === 0) return
  const rows = await readExpected(sweep.db, sweep.cell_id, strange)
  for (const id of strange) {
    const row = rows.get(id)
    if (row !== undefined && (row.active || row.observed_state !== 'deleted')) continue
    if (!mayRemove(sweep)) return
    await guarded(sweep, id, async () => {
      await sweep.host.deleteWorkspace(speak(sweep, id, row?.ownership_epoch ?? 0, 'delete'))
      report(sweep, 'workspace_deleted', `${id}: deleted what was left of it`)
    })
  }
}
