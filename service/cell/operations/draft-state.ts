import { failpoint } from '../../lib/failpoints.ts'
import { capturedLayer } from './captured-layer.ts'
import { keepStateLayers, readDraftState, type DraftState } from './draft-state-store.ts'
import { operationError, Refused } from './errors.ts'
import { ask, type Job } from './job.ts'
import { asAttempt, type MachineRow } from './store.ts'

/**
 * A test instance of a draft begins with a state of it: what the state captured is made a layer when the first one is opened, and lies
 * below whatever the instance writes. So a reset goes back to the state, and nothing of the draft's own disk is used.
 * @returns the row with these layers; as it is where it has them, or is no test instance of a draft.
 */
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
  const { digest } = await ask(job, seen.id, 'layer', seen.ownership_epoch + 1, (fence) =>
    job.cell.host.makeLayer({ ...fence, ...request }),
  )
  return layersWith(digest)
}

const GONE = operationError('checkpoint_corrupt', 'The state of the draft is not there any more', { reason: 'not_found' })
