import type { workspacesIdlePolicy } from '../../../contract/routes/app/workspaces.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import type { Call, Reply } from '../../http/call.ts'
import { changing } from '../calls/idempotency/change.ts'
import { workspaceSubject } from './answer-operation.ts'
import { findWorkspace, lockForChange } from './find.ts'
import { checkIdlePolicy } from './open-rules.ts'
import { allowed } from './refusals.ts'
import { workspaceView } from './view.ts'
import { writeIdlePolicy } from './write-store.ts'
import type { ChangeDeps, ReadDeps } from '../calls/deps.ts'

/** null restores the template's default. */
export async function setIdlePolicy(call: Call<typeof workspacesIdlePolicy>, deps: ChangeDeps & ReadDeps): Promise<Reply> {
  const { idle_policy } = call.body
  checkIdlePolicy(idle_policy)
  const work = async (tx: ChangeTx) => {
    const row = await lockForChange(tx, call)
    allowed(row, 'idle_policy')
    await writeIdlePolicy(tx, row.id, idle_policy, call.now)
    return row
  }
  await changing(deps, call, work, (row) => workspaceSubject(row, { idle_policy }))
  return { status: 200, body: workspaceView(await findWorkspace(deps, call)) }
}
