import type { Inventory, Machine, SubjectFiles } from '../../../contract/internal/host-inventory.ts'
import { readInstallationId } from '../../core/installation/store.ts'
import { readerOf } from '../../db/reader.ts'
import { endTransition } from '../machines/parking-store.ts'
import { dropStaleHolds, readExpected, settleLostFork, settleStartups, type ExpectedRow } from './reconcile-store.ts'
import { settle, drawFence } from '../machines/settle-store.ts'
import { raiseFences, restartQuarantine } from './host-ahead-store.ts'
import { dropUnnamed, adoptHostState, removeOrphans } from './orphans.ts'
import { endBuildMachines, sweepOtherKinds } from './other-kinds.ts'
import { settleAttachments } from '../operations/volumes/store.ts'
import { sweepVolumes } from './volume-orphans.ts'
import { guarded, report, passHeader, type ReconcileContext, type ReconcilePass } from './reconcile-pass.ts'
import type { LiveMachine } from '../host/live-machine.ts'
import { isWorkspace } from '../host/subject.ts'

/**
 * Compares rows and host. Operations repair their own workspaces.
 * Rows are read before the inventory. A change in between alters the state or epoch that guards every write here, or has drawn a higher
 * fence, and the host refuses the repair.
 * @param begins the first pass of this process's term: no other part of the cell acts yet.
 */
export async function reconcile(context: ReconcileContext, begins = false): Promise<Compared> {
  if (begins) await beginAboveHost(context)
  let done = await compareAll(context, begins)
  if (done.followed) done = await compareAll(context, false)
  return done
}

export interface Compared {
  inventory: Inventory
  is_whole: boolean
}

/** The database may have been restored to an earlier time than the host's, with lower fences. */
async function beginAboveHost(context: ReconcileContext): Promise<void> {
  await claimHost(context)
  const { highest_fence } = await context.host.glance()
  if (!(await raiseFences(context.db, highest_fence))) return
  await restartQuarantine(context.db, context.cell_id)
  context.log.warn({ highest_fence }, 'the database is older than this host: fencing tokens continue above those that the host has seen')
}

/** Fails for the host of another installation: this database has no rows of its workspaces, and must not change it. */
async function claimHost({ db, host }: ReconcileContext): Promise<void> {
  await host.claim(await readInstallationId(readerOf(db)))
}

async function compareAll(context: ReconcileContext, begins: boolean): Promise<Compared & { followed: boolean }> {
  const fence = await drawFence(context.db)
  const moving = new Set(context.parking?.inTransition()) // read after the fence was drawn: later transitions have a higher one
  const shown = context.table.known().flatMap(({ id, machine }) => (machine === null ? [] : [{ id, machine }]))
  const rows = await readExpected(context.db, context.cell_id, [])
  await claimHost(context) // after the rows were read: checks that rows and host belong together
  const inventory = await context.host.inventory()
  const sweep: ReconcilePass = {
    ...context,
    operation_id: context.ids.next(),
    fence,
    did: [],
    failed: 0,
    removed: 0,
    moving,
    unsettled: new Set(),
  }
  const machines = new Map(inventory.machines.filter(isWorkspace).map((machine) => [machine.subject.id, machine]))
  const files = new Map(inventory.files.filter(isWorkspace).map((one) => [one.subject.id, one]))
  const followed = await adoptHostState(sweep, rows, machines, files, begins)
  if (followed.length === 0) await repairAll(sweep, shown, rows, inventory, machines, files)
  if (sweep.did.length > 0) context.log.info({ did: sweep.did }, 'reconciled')
  return { inventory, followed: followed.length > 0, is_whole: sweep.failed === 0 }
}

async function repairAll(
  sweep: ReconcilePass,
  shown: { id: string; machine: LiveMachine }[],
  rows: Map<string, ExpectedRow>,
  inventory: Inventory,
  machines: Map<string, Machine>,
  files: Map<string, SubjectFiles>,
): Promise<void> {
  forgetEnded(sweep, shown, rows, inventory)
  const holds = await dropStaleHolds(sweep.db)
  if (holds > 0) report(sweep, 'holds_dropped', `dropped ${holds} holds of ended operations`)
  const attachments = await settleAttachments(sweep.db, sweep.cell_id, sweep.clock.now())
  if (attachments > 0) report(sweep, 'attachments_settled', `settled ${attachments} attachments of ended operations`)
  const startups = await settleStartups(sweep.db, sweep.cell_id, sweep.clock.now())
  if (startups > 0) report(sweep, 'settled', `settled ${startups} start-ups that no operation ran`)
  for (const row of rows.values()) await guarded(sweep, row.id, () => compare(sweep, row, machines.get(row.id), files.get(row.id)))
  await removeOrphans(sweep, rows, machines, files)
  await endBuildMachines(sweep)
  await sweepOtherKinds(sweep, inventory)
  await sweepVolumes(sweep, inventory)
}

/** A machine that another process has parked, and maybe woken, ends no stream. */
function forgetEnded(
  sweep: ReconcilePass,
  shown: { id: string; machine: LiveMachine }[],
  rows: Map<string, ExpectedRow>,
  inventory: Inventory,
): void {
  const there = new Map(inventory.machines.filter(isWorkspace).map((machine) => [machine.subject.id, machine]))
  const moving = new Set([...sweep.moving, ...(sweep.parking?.inTransition() ?? [])])
  for (const { id, machine } of shown) {
    const found = there.get(id)
    const row = rows.get(id)
    if (found?.fence === machine.fence || moving.has(id)) continue
    const moved = row?.ownership_epoch === machine.epoch && (row.residency !== 'resident' || found?.epoch === machine.epoch)
    if (moved) sweep.table.parkMachine(id, machine.fence)
    else sweep.table.endMachine(id, machine.fence, 'died')
  }
}

async function compare(
  sweep: ReconcilePass,
  row: ExpectedRow,
  machine: Machine | undefined,
  files: SubjectFiles | undefined,
): Promise<void> {
  if (sweep.moving.has(row.id) || sweep.unsettled.has(row.id)) return
  // Any other machine was not stopped yet, or never became the machine of the hibernated workspace.
  const own = machine?.epoch === row.ownership_epoch && row.residency === 'resident' ? machine : undefined
  if (own !== undefined && row.observed_state === 'running') await adopt(sweep, row, own)
  if (row.active) return
  if (row.residency === 'restoring' && !(await endTransition(sweep.db, row.id, sweep.fence))) return
  await SETTLE[row.observed_state]?.(sweep, row, own)
  const stray = machine !== undefined && !(own !== undefined && ALIVE.has(row.observed_state))
  if (stray) await stopOrphan(sweep, row, machine)
  if (files !== undefined) await dropUnnamed(sweep, row, files, stray ? undefined : machine)
}

const ALIVE: ReadonlySet<string> = new Set(['running', 'suspending'])

async function adopt(sweep: ReconcilePass, row: ExpectedRow, machine: Machine): Promise<void> {
  const { epoch, state } = machine
  // Not stored, because an operation may have unpaused the guest since: the table would continue to report `paused`.
  const known = sweep.table.get(row.id)?.machine
  if (row.active && state === 'paused' && known?.fence === machine.fence) return
  sweep.table.putMachine(machine)
  if (row.active) return
  if (state === 'paused') {
    // Ends the hibernation for which the guest was paused, so that its process cannot commit it any more.
    if (!(await endTransition(sweep.db, row.id, sweep.fence))) return
    await sweep.host.unpause(passHeader(sweep, row.id, epoch, 'unpause'))
    sweep.table.markMachine(row.id, machine.fence, 'running')
    report(sweep, 'unpaused', `${row.id}: let the paused guest run again`)
  }
  if (!machine.connected) {
    await sweep.host.connect(passHeader(sweep, row.id, epoch, 'connect'))
    report(sweep, 'connected', `${row.id}: connected`)
  }
}

type Settle = (sweep: ReconcilePass, row: ExpectedRow, own: Machine | undefined) => Promise<void>

/** States that only an operation may leave, when no operation is left. */
const SETTLE: Partial<Record<ExpectedRow['observed_state'], Settle>> = {
  running: async (sweep, row, own) => {
    if (own === undefined && row.residency === 'resident') await move(sweep, row, 'died')
  },
  creating: (sweep, row) => move(sweep, row, 'start_failed'),
  starting: (sweep, row) => move(sweep, row, 'start_failed'),
  resuming: (sweep, row) => move(sweep, row, 'resume_undone'),
  suspending: async (sweep, row, own) => {
    if (own === undefined && row.residency === 'resident') return move(sweep, row, 'lost')
    if (own?.state === 'paused') await sweep.host.unpause(passHeader(sweep, row.id, own.epoch, 'unpause'))
    await move(sweep, row, 'suspend_undone')
  },
  forking: async (sweep, row) => {
    if (row.checkpoint_id !== null) return move(sweep, row, 'fork_failed')
    if (await settleLostFork(sweep.db, row, sweep.clock.now())) report(sweep, 'fork_ended', `${row.id}: ended a fork that captured nothing`)
  },
  deleting: async (sweep, row) => {
    await sweep.host.deleteSubject(passHeader(sweep, row.id, row.ownership_epoch, 'delete'))
    await move(sweep, row, 'deleted')
  },
}

async function move(sweep: ReconcilePass, row: ExpectedRow, event: Parameters<typeof settle>[2]): Promise<void> {
  if (await settle(sweep.db, row, event, sweep.clock.now())) report(sweep, 'settled', `${row.id}: ${row.observed_state}, ${event}`)
}

async function stopOrphan(sweep: ReconcilePass, row: ExpectedRow, machine: Machine): Promise<void> {
  await sweep.host.stop({ ...passHeader(sweep, row.id, row.ownership_epoch, 'stop'), machine_epoch: machine.epoch })
  // A hibernated workspace continues without this machine, so no stream ends.
  if (row.residency === 'resident') sweep.table.endMachine(row.id, machine.fence, 'epoch_ended')
  else sweep.table.parkMachine(row.id, machine.fence)
  sweep.room?.ended(row.id, machine.fence)
  report(sweep, 'machine_stopped', `${row.id}: stopped a machine of epoch ${machine.epoch}`)
}
