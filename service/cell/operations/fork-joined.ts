import { JOINED } from '../../core/operations/store.ts'
import { HostFailure, type CheckpointInfo } from '../links/hostd.ts'
import { insertCheckpoint } from './checkpoint-store.ts'
import { ask, takeOver, type CellContext, type Job } from './job.ts'
import { listJoined, takeJoined, type Joined } from './join-store.ts'
import { LostRace, moveWorkspace, type MachineRow, type Tx } from './store.ts'

/** The target owns a capture of its source; the source is free again. */
export const CAPTURED = 'captured'

/** A fork that a capture serves beside the one that took it, and its own copy of it. null: the source is blank, and so is its copy. */
export interface Served extends Joined {
  info: CheckpointInfo | null
}

/**
 * Copies what a fork has captured to those that have joined it (decision 256). Copying takes no bytes. One that cannot have its copy, or
 * would be too small for it, is left as it is: the source is handed to it, and it learns the reason by itself.
 * @param captured the capture, in the files of the fork that took it.
 */
export async function serveJoined(job: Job, source: MachineRow, captured: CheckpointInfo | null, memory_mib: number): Promise<Served[]> {
  const joined = await listJoined(job.cell.db, source.id, job.operation.id)
  const fitting = joined.filter(({ target }) => target.ceilings.memory_mib >= memory_mib)
  if (captured === null) return fitting.map((one) => ({ ...one, info: null }))
  const served = await Promise.all(fitting.map((one) => copyFor(job, one, captured)))
  return served.filter((one) => one !== undefined)
}

async function copyFor(job: Job, joined: Joined, captured: CheckpointInfo): Promise<Served | undefined> {
  const { cell, operation } = job
  const { target } = joined
  const epoch = target.ownership_epoch + 1
  const checkpoint_id = cell.ids.next()
  const names = { source: captured.subject, source_checkpoint_id: captured.checkpoint_id, checkpoint_id }
  try {
    // An earlier attempt, of this fork or of one that ended before it, may be at the same.
    if (operation.attempt > 1 || operation.step === JOINED) await takeOver(job, target.id, epoch)
    return { ...joined, info: await ask(job, target.id, 'share', epoch, (fence) => cell.host.cloneCheckpoint({ ...fence, ...names })) }
  } catch (error) {
    // It is being deleted, or its copy failed: neither is a reason to fail the fork that captured.
    if (!(error instanceof HostFailure || error instanceof LostRace)) throw error
    cell.log.info({ operation_id: operation.id, joined: joined.operation_id, err: error }, 'a fork that joined takes a capture of its own')
    return undefined
  }
}

/** With the commit of the capture: each has its own, goes on from there by itself, and waits for nothing but room. */
export async function commitServed(tx: Tx, cell: CellContext, served: readonly Served[], now: Date): Promise<void> {
  for (const { operation_id, target, info } of served) {
    if (!(await takeJoined(tx, operation_id, CAPTURED, now))) continue // deleted meanwhile, and its copy with it
    if (info !== null) await insertCheckpoint(tx, cell, { id: operation_id }, info, { kind: 'fork', label: null, expires_at: null })
    await moveWorkspace(tx, target, 'captured', now, { checkpoint_id: info?.checkpoint_id ?? null })
  }
}
