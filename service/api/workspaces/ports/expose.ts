import { LIMITS } from '../../../../contract/limits.ts'
import type { portsExpose } from '../../../../contract/routes/app/ports.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { lockPort } from './find.ts'
import { tooMany } from './limits.ts'
import { countPorts, insertPort, type PortRow } from './store.ts'
import { portSubject, portView } from './view.ts'
import type { ChangeDeps } from '../../calls/deps.ts'
import type { WorkspaceDeps } from '../deps.ts'

const UNUSED = { requests: 0, received_bytes: 0, sent_bytes: 0, last_request_at: null, callback_created_at: null }

export async function exposePort(call: Call<typeof portsExpose>, deps: ChangeDeps & Pick<WorkspaceDeps, 'ports_url'>): Promise<Reply> {
  const work = async (tx: ChangeTx) => {
    const { workspace, port: known } = await lockPort(tx, call)
    if (known !== null) return { workspace, port: known, is_new: false }
    const count = await countPorts(tx, workspace.id)
    if (count >= LIMITS.port.per_workspace_max) throw tooMany('ports_per_workspace', LIMITS.port.per_workspace_max, count)
    const row = { id: deps.ids.next(), workspace_id: workspace.id, port: call.params.port, created_at: call.now }
    await insertPort(tx, row)
    const port: PortRow = { ...UNUSED, ...row }
    return { workspace, port, is_new: true }
  }
  const { port } = await changing(deps, call, work, (done) => (done.is_new ? portSubject(done.workspace, done.port) : null))
  return { status: 200, body: portView(deps.ports_url, port) }
}
