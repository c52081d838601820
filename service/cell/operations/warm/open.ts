import type { Machine } from '../../../../contract/internal/host-inventory.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { HostFailure, type HostFailureCode } from '../../host/hostd.ts'
import { buildSubject } from '../../host/subject.ts'
import { Refused } from '../errors.ts'
import { callHost, type Job } from '../job.ts'
import { restoreRequest } from '../requests.ts'
import { commitRunning, completeRunning, type RunningEnd } from '../running.ts'
import type { MachineRow } from '../../machines/machine-row-store.ts'
import { fitOf, whyCold, type Capture } from './rules.ts'
import { discardCapture, noteUsed, readWarmFacts, requestCapture, type WarmFacts } from './store.ts'

/**
 * Restores a capture under a new identity, like a fork. An unusable capture makes the open start cold, not fail. @returns whether it was
 * restored
 */
export async function openWarm(job: Job, seen: MachineRow, end: RunningEnd): Promise<boolean> {
  if (seen.startup?.state !== 'pending' || seen.disk !== null) return false
  const facts = await readWarmFacts(job.cell.db, seen.id, job.cell.cell_id)
  if (facts === undefined || whyCold({ ...seen, ...facts }) !== null) return false
  const capture = await captureFor(job, seen, facts)
  if (capture === null) return false
  const machine = await restoreCapture(job, seen, capture)
  if (machine === null) return false
  await noteUsed(job.cell.db, capture.id, job.cell.clock.now())
  const warm_end = { ...end, result: { ...end.result, warm: true } }
  await completeRunning(job, await commitWarm(job, seen, machine, capture, warm_end), machine, warm_end)
  return true
}

type Usable = Pick<Capture, 'id'> & { checkpoint_id: string }

/** Returns a usable capture, and requests a missing one for later opens. */
async function captureFor({ cell }: Job, seen: MachineRow, facts: WarmFacts): Promise<Usable | null> {
  const { capture, version_id, organization_id, project_id } = facts
  const fit = fitOf(capture, seen, facts.engine)
  const now = cell.clock.now()
  if (fit === 'missing')
    await requestCapture(cell.db, { id: cell.ids.next(), version_id, cell_id: cell.cell_id, organization_id, project_id }, now)
  if (capture === null || capture.checkpoint_id === null) return null
  if (fit === 'stale') await discardCapture(cell.db, capture, now)
  return fit === 'fits' ? { id: capture.id, checkpoint_id: capture.checkpoint_id } : null
}

/** Errors of the capture, after which the open starts cold. With any other error, a cold start would fail as well. */
const SPOILT: readonly HostFailureCode[] = ['not_found', 'checkpoint_corrupt', 'checkpoint_incompatible', 'layer_missing', 'restore_failed']

/** @returns null if the capture cannot be restored */
async function restoreCapture(job: Job, seen: MachineRow, capture: Usable): Promise<Machine | null> {
  const { cell } = job
  await failpoint('warm.W4')
  const request = { checkpoint_id: capture.checkpoint_id, of: buildSubject(capture.id) }
  try {
    return await callHost(job, seen.id, 'restore-warm', seen.ownership_epoch + 1, (fence) =>
      cell.host.restore({ ...restoreRequest(fence, seen, request.checkpoint_id, { renew_identity: true }), ...request }),
    )
  } catch (error) {
    if (!(error instanceof HostFailure) || error.code === 'no_capacity') throw error
    cell.log.warn({ workspace_id: seen.id, capture_id: capture.id, code: error.code, err: error }, 'a warm machine could not be restored')
    if (SPOILT.includes(error.code)) await discardCapture(cell.db, capture, cell.clock.now())
    return null
  }
}

async function commitWarm(job: Job, seen: MachineRow, machine: Machine, capture: Usable, end: RunningEnd): Promise<MachineRow> {
  try {
    return await commitRunning(job, seen, machine, end, { boots: false, is_ready: true })
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    // The restored machine ended at once, and the next one would too. The capture is discarded, so the retry starts cold.
    await discardCapture(job.cell.db, capture, job.cell.clock.now())
    throw new Error('A warm machine ended while it was being restored', { cause: error })
  }
}
