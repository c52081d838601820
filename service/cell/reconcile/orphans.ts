import type { Machine, SubjectFiles } from '../../../contract/internal/host-inventory.ts'
import { HostFailure } from '../host/hostd.ts'
import { guarded, mayRemove, report, passHeader, type ReconcilePass } from './reconcile-pass.ts'
import { readExpected, type ExpectedRow } from './reconcile-store.ts'
import { hostAheadOf, isOver, makerOf, repairOf, orphanFilesOf, type HostAhead } from './orphan-rules.ts'
import { readKnownFences, repair } from './host-ahead-store.ts'

const DAY_MS = 24 * 3600 * 1000

/**
 * After a database restore the rows are changed to the newer state of the host. Data that they do not name goes to quarantine first.
 * @param begins no other part of this process acts yet: operations under way in the rows are abandoned.
 */
export async function adoptHostState(
  sweep: ReconcilePass,
  rows: Map<string, ExpectedRow>,
  machines: Map<string, Machine>,
  files: Map<string, SubjectFiles>,
  begins: boolean,
): Promise<string[]> {
  const candidates = [...rows.values()].filter(
    (row) => mayFollow(sweep, row, begins) && isStrange(row, machines.get(row.id), files.get(row.id)),
  )
  if (candidates.length === 0) return []
  const known = await readKnownFences(sweep.db, candidates.map(({ id }) => id)) // prettier-ignore
  const followed: string[] = []
  for (const row of candidates) {
    const fences = { known: known.get(row.id) ?? 0, ours: sweep.fence }
    const ahead = hostAheadOf(row, files.get(row.id), machines.get(row.id), fences)
    if (ahead === null) continue
    sweep.unsettled.add(row.id) // if this fails, no other step may act on the outdated row
    await guarded(sweep, row.id, async () => {
      await follow(sweep, row, ahead, machines.get(row.id), files.get(row.id))
      followed.push(row.id)
    })
  }
  return followed
}

function mayFollow({ moving }: ReconcilePass, { id, active, observed_state }: ExpectedRow, begins: boolean): boolean {
  return !moving.has(id) && (begins || !active) && observed_state !== 'deleting' && observed_state !== 'deleted'
}

function isStrange(row: ExpectedRow, machine: Machine | undefined, files: SubjectFiles | undefined): boolean {
  if (machine !== undefined && machine.disk !== row.disk) return true
  if (files === undefined) return false
  const { disks, checkpoints } = orphanFilesOf(row, files, machine)
  return disks.length + checkpoints.length > 0
}

async function follow(
  sweep: ReconcilePass,
  row: ExpectedRow,
  ahead: HostAhead,
  machine: Machine | undefined,
  files?: SubjectFiles,
): Promise<void> {
  const { ownership_epoch, residency, disk: named } = row
  const own = machine?.epoch === ownership_epoch && residency === 'resident' && machine.disk === named ? machine : undefined
  const to = repairOf(row, files, ahead, own)
  const before = to.kind !== 'keep' && named !== null && files?.disks.includes(named) === true ? [named] : []
  const disks = [...ahead.disks, ...before].filter((name) => !(to.kind === 'failed' && name === to.disk))
  const whole = ahead.checkpoints.filter((one) => one.disk_only !== true && !(to.kind === 'suspended' && one === to.checkpoint))
  const disk_only = ahead.checkpoints.filter((one) => one.disk_only === true).map(({ checkpoint_id }) => checkpoint_id)
  if (disks.length + disk_only.length > 0) {
    const listed = (kind: string) => (files?.quarantined ?? []).filter((one) => one.kind === kind).map(({ name }) => name)
    const list = { disks: [...listed('disk'), ...disks], checkpoints: [...listed('checkpoint'), ...disk_only] }
    await sweep.host.quarantine({ ...passHeader(sweep, row.id, ownership_epoch, 'quarantine'), ...list })
  }
  const now = sweep.clock.now()
  const expires_at = new Date(now.getTime() + sweep.quarantine_days * DAY_MS)
  const by = { cell_id: sweep.cell_id, operation_id: sweep.operation_id, fence: sweep.fence, now, expires_at }
  await repair(sweep.db, row, to, whole, by)
  report(sweep, 'followed', `${row.id}: the database is older than this host: ${row.observed_state} becomes ${to.kind}, ${disks.length + disk_only.length + whole.length} older and newer states are kept`) // prettier-ignore
}

/** Files in quarantine are deleted only after its days. */
export async function dropUnnamed(
  sweep: ReconcilePass,
  row: ExpectedRow,
  files: SubjectFiles,
  machine: Machine | undefined,
): Promise<void> {
  const unnamed = orphanFilesOf(row, files, machine)
  const strange = new Set([...unnamed.disks, ...unnamed.checkpoints.map(({ checkpoint_id }) => checkpoint_id)])
  const still = files.quarantined.filter((one) => strange.has(one.name) && !isOver(one, sweep.quarantine_days, sweep.clock.now()))
  const kept = new Set(still.map(({ name }) => name))
  const disks = unnamed.disks.filter((name) => !kept.has(name) && makerOf(name).fence <= sweep.fence)
  const checkpoints = unnamed.checkpoints.map(({ checkpoint_id }) => checkpoint_id).filter((id) => !kept.has(id))
  if (disks.length > 0 && mayRemove(sweep)) {
    await sweep.host.deleteDisks({ ...passHeader(sweep, row.id, row.ownership_epoch, 'disks'), names: disks })
    report(sweep, 'files_deleted', `${row.id}: deleted disks ${disks.join(', ')}`)
  }
  if (checkpoints.length > 0 && mayRemove(sweep)) {
    await sweep.host.deleteCheckpoints({ ...passHeader(sweep, row.id, row.ownership_epoch, 'checkpoints'), names: checkpoints })
    report(sweep, 'files_deleted', `${row.id}: deleted checkpoints ${checkpoints.join(', ')}`)
  }
  if (still.length === files.quarantined.length) return
  const named = (kind: string) => still.filter((one) => one.kind === kind).map(({ name }) => name)
  const fence = passHeader(sweep, row.id, row.ownership_epoch, 'release')
  await sweep.host.quarantine({ ...fence, disks: named('disk'), checkpoints: named('checkpoint') })
}

export async function removeOrphans(
  sweep: ReconcilePass,
  known: Map<string, ExpectedRow>,
  machines: Map<string, Machine>,
  files: Map<string, SubjectFiles>,
): Promise<void> {
  const holding = [...files.values()].filter(({ disks, checkpoints }) => disks.length + checkpoints.length > 0)
  const found = new Set([...machines.keys(), ...holding.map(({ subject }) => subject.id)])
  const strange = [...found].filter((id) => !known.has(id))
  if (strange.length === 0) return
  const rows = await readExpected(sweep.db, sweep.cell_id, strange)
  for (const id of strange) {
    const row = rows.get(id)
    if (row !== undefined && (row.active || row.observed_state !== 'deleted')) continue
    const since = files.get(id)?.quarantined.find(({ kind }) => kind === 'subject')
    const isKept = since !== undefined && !isOver(since, sweep.quarantine_days, sweep.clock.now())
    if (row === undefined && isKept && !machines.has(id)) continue
    if (!mayRemove(sweep)) return
    const isGarbage = row !== undefined || (since !== undefined && !isKept)
    await guarded(sweep, id, () => (isGarbage ? remove(sweep, id, row) : keep(sweep, id, machines.get(id))))
  }
}

async function remove(sweep: ReconcilePass, id: string, row: ExpectedRow | undefined): Promise<void> {
  await sweep.host.deleteSubject(passHeader(sweep, id, row?.ownership_epoch ?? 0, 'delete'))
  report(sweep, 'workspace_deleted', `${id}: deleted what was left of it`)
}

/** Disk and checkpoints are kept. The memory is lost, because the machine is stopped. */
async function keep(sweep: ReconcilePass, id: string, machine: Machine | undefined): Promise<void> {
  try {
    await sweep.host.quarantine({ ...passHeader(sweep, id, 0, 'quarantine'), whole: true, disks: [], checkpoints: [] })
  } catch (error) {
    if (!(error instanceof HostFailure) || error.code !== 'not_found') throw error
  }
  if (machine !== undefined) await sweep.host.stop({ ...passHeader(sweep, id, machine.epoch, 'stop'), machine_epoch: machine.epoch })
  report(sweep, 'quarantined', `${id}: no row has ever named it; it is kept for ${sweep.quarantine_days} days`)
}
