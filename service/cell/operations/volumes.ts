import type { MachineVolume, OperationError } from '../../db/column-types.ts'
import { failpoint } from '../../lib/failpoints.ts'
import type { HostFailure, HostFailureCode } from '../host/hostd.ts'
import type { OperationErrorCode } from '../../../contract/errors.ts'
import { dropAttachment, isAvailable, markAttached, readOwnAttachment } from './volumes/store.ts'
import { operationError, Refused } from './errors.ts'
import { callHost, claimedRow, prepareCapture, takeOver, type Job, type OperationKind } from './job.ts'
import { endAttempt } from './store.ts'
import { readMachineRow, isHibernated, type MachineRow, LostRace } from '../machines/machine-row-store.ts'

/** If the workspace has no machine, its next start attaches the volume. */
export const attach: OperationKind = {
  async drive(job) {
    const { cell, operation } = job
    const seen = await claimedRow(job)
    if (operation.attempt > 1) await takeOver(job, seen.id, seen.ownership_epoch)
    const { volume_id, ...attachment } = await ownAttachment(job)
    if (!(await isAvailable(cell.db, volume_id))) throw new Refused(GONE)
    await failpoint('volume_attach.A1')
    await setVolumes(job, seen, [...without(seen, volume_id), { volume_id, ...attachment }])
    await failpoint('volume_attach.A2')
    const now = cell.clock.now()
    const result = { volume_id, mount_path: attachment.mount_path }
    await endAttempt(cell.db, operation, now, { state: 'succeeded', result }, async (tx) => {
      // A delete of the volume detaches it later.
      if (!(await markAttached(tx, operation.id, now))) throw new LostRace('The attachment')
    })
    await cell.table.fresh(seen.id)
  },
  undo: (job, error) => undo(job, error, (tx) => dropAttachment(tx, job.operation.id)),
  errorOf,
}

export const detach: OperationKind = {
  async drive(job) {
    const { cell, operation } = job
    const seen = await claimedRow(job)
    if (operation.attempt > 1) await takeOver(job, seen.id, seen.ownership_epoch)
    const { volume_id } = await ownAttachment(job)
    await failpoint('volume_detach.A1')
    await setVolumes(job, seen, without(seen, volume_id))
    await failpoint('volume_detach.A2')
    const now = cell.clock.now()
    await endAttempt(cell.db, operation, now, { state: 'succeeded', result: { volume_id } }, (tx) => dropAttachment(tx, operation.id))
    await cell.table.fresh(seen.id)
  },
  undo: (job, error) =>
    undo(job, error, async (tx) => {
      await markAttached(tx, job.operation.id, job.cell.clock.now())
    }),
  errorOf,
}

type Write = Parameters<typeof endAttempt>[4]

/** If the host fails, the rows still define which volumes the machine should have. The next start follows them. */
async function undo(job: Job, error: OperationError, write: Write): Promise<void> {
  const { cell, operation } = job
  const seen = await readMachineRow(cell.db, operation.workspace_id)
  if (operation.attempt > 0 && hasMachine(seen)) await setBack(job, seen)
  await endAttempt(cell.db, operation, cell.clock.now(), { state: 'failed', error }, write)
  await cell.table.fresh(seen.id)
}

/** A hostd that ended midway may have left the volumes of the failed operation attached. */
async function setBack(job: Job, seen: MachineRow): Promise<void> {
  const { volumes, id, ownership_epoch } = seen
  try {
    await callHost(job, id, 'volumes-undo', ownership_epoch, (fence) => job.cell.host.setVolumes({ ...fence, volumes }))
  } catch (error) {
    if (error instanceof LostRace) throw error
    job.cell.log.warn({ workspace_id: id, err: error }, 'a machine may have other volumes than its workspace, until it starts again')
  }
}

/** Lets running calls end first, so that no command sees a mix of old and new volumes. */
async function setVolumes(job: Job, seen: MachineRow, volumes: MachineVolume[]): Promise<void> {
  if (!hasMachine(seen)) return
  await prepareCapture(job, seen.id)
  await callHost(job, seen.id, 'volumes', seen.ownership_epoch, (fence) => job.cell.host.setVolumes({ ...fence, volumes }))
}

/** A hibernated machine needs no change: its restore attaches the volumes that the workspace has at that time. */
function hasMachine(seen: MachineRow): boolean {
  return seen.observed_state === 'running' && !isHibernated(seen)
}

function without({ volumes }: MachineRow, volume_id: string): MachineVolume[] {
  return volumes.filter((one) => one.volume_id !== volume_id)
}

async function ownAttachment({ cell, operation }: Job): Promise<MachineVolume> {
  const found = await readOwnAttachment(cell.db, operation.id)
  if (found === undefined) throw new Refused(GONE) // deleted with the volume
  return found
}

const GONE = operationError('dependency_failed', 'The volume is deleted', { reason: 'volume_not_available' })

const REFUSALS: Partial<Record<HostFailureCode, [OperationErrorCode, string, string]>> = {
  volume_busy: [
    'dependency_failed',
    'Something in the workspace uses the volume: a process has a file of it open, or works in it',
    'volume_busy',
  ],
  mount_refused: ['dependency_failed', 'The volume cannot be mounted at that path of the workspace', 'mount_refused'],
  not_found: ['dependency_failed', 'The volume is not on the host', 'volume_not_available'],
  not_running: ['dependency_failed', 'The machine of the workspace has ended', 'not_running'],
}

function errorOf(failure: HostFailure): OperationError {
  const [code, message, reason] = REFUSALS[failure.code] ?? [
    'dependency_failed',
    'The host could not change the volumes of the workspace',
    failure.code,
  ]
  const { why } = failure.details
  return operationError(code, message, { reason, ...(typeof why === 'string' ? { why } : {}) })
}
