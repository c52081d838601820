import { failpoint } from '../../lib/failpoints.ts'
import { capturedLayer } from './captured-layer.ts'
import { keepStateLayers, readDraftState, type DraftState } from './draft-state-store.ts'
import { operationError, Refused } from './errors.ts'
import { callHost, type Job } from './job.ts'
import { asAttempt } from './store.ts'
import type { MachineRow } from '../machines/machine-row-store.ts'

/** The first open makes a layer from the draft's state. A reset returns to this layer, and the draft's own disk is not changed. */
export async function onItsState(job: Job, seen: MachineRow): Promise<MachineRow> {
  const { cell, operation } = job
  const { unmade_state } = seen
  if (unmade_state === null) return seen
  const state = await readDraftState(cell.db, unmade_state)
  if (state === undefined) throw new Refused(GONE)
  const layers = state.layers ?? (await makeLayers(job, seen, state))
  await failpoint('draft_state.D3')
  const of = { state_id: unmade_state, workspace_id: seen.id }
  await asAttempt(cell.db, operation, cell.clock.now(), (tx) => keepStateLayers(tx, of, layers))
  return { ...seen, layers, unmade_state: null }
}

async function makeLayers(job: Job, seen: MachineRow, { workspace_id, checkpoint_id, below }: DraftState): Promise<string[]> {
  if (checkpoint_id === null) throw new Refused(GONE)
  const { request, layersWith } = capturedLayer({ workspace_id, checkpoint_id, layers: below })
  await failpoint('draft_state.D2')
  const { digest } = await callHost(job, seen.id, 'layer', seen.ownership_epoch + 1, (fence) =>
    job.cell.host.makeLayer({ ...fence, ...request }),
  )
  return layersWith(digest)
}

const GONE = operationError('checkpoint_corrupt', 'The state of the draft is not there any more', { reason: 'not_found' })
