import type { workspacesIdlePolicy } from '../../../contract/routes/app/workspaces.ts'
import type { Call, Reply } from '../../http/call.ts'
import type { ApiDeps } from '../deps.ts'
import { changing } from '../idempotency/change.ts'
import { findWorkspace, lockForChange } from './find.ts'
import { checkIdlePolicy } from './open-rules.ts'
import { allowed } from './refusals.ts'
import { workspaceView } from './view.ts'
import { writeIdlePolicy } from './write-store.ts'

/** PUT /v1/workspaces/{workspace_id}/idle-policy: null clears it, so that the template's default applies. */
export async function setIdlePolicy(call: Call<typeof workspacesIdlePolicy>, deps: ApiDeps): Promise<Reply> {
  const { idle_policy } = call.body
  checkIdlePolicy(idle_policy)
  await changing(deps, call, async (tx) => {
    const row = await lockForChange(tx, call)
    allowed(row, 'idle_policy')
    await writeIdlePolicy(tx, row.id, idle_policy, call.now)
  })
  return { status: 200, body: workspaceView(await findWorkspace(deps, call)) }
}
