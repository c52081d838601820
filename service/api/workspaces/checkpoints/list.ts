import type { checkpointsList } from '../../../../contract/routes/app/checkpoints.ts'
import type { Checkpoint } from '../../../../contract/schemas/checkpoints.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { findWorkspace } from '../find.ts'
import { listCheckpoints, type CheckpointRow } from './store.ts'
import type { PageDeps } from '../../calls/deps.ts'

export async function listCheckpointsOfWorkspace(call: Call<typeof checkpointsList>, deps: PageDeps): Promise<Reply> {
  const workspace = await findWorkspace(deps, call)
  const rows = await listCheckpoints(deps.reads, workspace.id, call.now, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, checkpointView) }
}

function checkpointView(row: CheckpointRow): Checkpoint {
  return { ...row, created_at: row.created_at.toISOString(), expires_at: row.expires_at?.toISOString() ?? null }
}
