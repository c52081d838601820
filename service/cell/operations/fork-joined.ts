import type { CheckpointInfo } from '../../../contract/internal/host-inventory.ts'
import { WAITS_FOR_CAPTURE } from '../../core/workspaces/operations/store.ts'
import { HostFailure } from '../host/hostd.ts'
import { insertCheckpoint } from './checkpoint-store.ts'
import { callHost, takeOver, type CellContext, type Job } from './job.ts'
import { listJoined, takeJoined, type Joined } from './join-store.ts'
import { moveWorkspace } from './store.ts'
import type { Tx } from '../../db/reader.ts'
import { type MachineRow, LostRace } from '../machines/machine-row-store.ts'

/** The step in which the target has its own capture, and the source is released. */
export const CAPTURED = 'captured'

/** null: source and copy are blank. */
export interface SharedCapture extends Joined {
  info: CheckpointInfo | null
}

/**
 * Copies a capture to the forks that wait for it; a copy moves no bytes (decision 256). A fork without a copy gets the source later, and
 * captures or fails by itself.
 * @param captured in the files of the fork that made it
 */
export async function shareCapture(
  job: Job,
  source: MachineRow,
  captured: CheckpointInfo | null,
  memory_mib: number,
): Promise<SharedCapture[]> {
  const joined = await listJoined(job.cell.db, source.id, job.operation.id)
  const fitting = joined.filter(({ target }) => target.ceilings.memory_mib >= memory_mib)
  if (captured === null) return fitting.map((one) => ({ ...one, info: null }))
  const served = await Promise.all(fitting.map((one) => copyFor(job, one, captured)))
  return served.filter((one) => one !== undefined)
}

async function copyFor(job: Job, joined: Joined, captured: CheckpointInfo): Promise<SharedCapture | undefined> {
  const { cell, operation } = job
  const { target } = joined
  const epoch = target.ownership_epoch + 1
  const checkpoint_id = cell.ids.next()
  const names = { source: captured.subject, source_checkpoint_id: captured.checkpoint_id, checkpoint_id }
  try {
    // Ends such a copy first: an earlier attempt of this fork, or a fork that ended before, may be making it.
    if (operation.attempt > 1 || operation.step === WAITS_FOR_CAPTURE) await takeOver(job, target.id, epoch)
    return { ...joined, info: await callHost(job, target.id, 'share', epoch, (fence) => cell.host.cloneCheckpoint({ ...fence, ...names })) }
  } catch (error) {
    // A deleted fork or a failed copy must not fail the fork that captured.
    if (!(error instanceof HostFailure || error instanceof LostRace)) throw error
    cell.log.info({ operation_id: operation.id, joined: joined.operation_id, err: error }, 'a fork that joined takes a capture of its own')
    return undefined
  }
}

/** Runs in the transaction that commits the capture. From this commit on, the forks wait only for capacity. */
export async function commitServed(tx: Tx, cell: CellContext, served: readonly SharedCapture[], now: Date): Promise<void> {
  for (const { operation_id, target, info } of served) {
    if (!(await takeJoined(tx, operation_id, CAPTURED, now))) continue // the fork was deleted since, and its copy with it
    if (info !== null) await insertCheckpoint(tx, cell, { id: operation_id }, info, { kind: 'fork', label: null, expires_at: null })
    await moveWorkspace(tx, target, 'captured', now, { checkpoint_id: info?.checkpoint_id ?? null })
  }
}
