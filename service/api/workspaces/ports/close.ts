import type { portsClose } from '../../../../contract/routes/app/ports.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { lockPort } from './find.ts'
import { deletePort } from './store.ts'
import { portSubject } from './view.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

export async function closePort(call: Call<typeof portsClose>, deps: ChangeDeps): Promise<Reply> {
  const work = async (tx: ChangeTx) => {
    const { workspace, port } = await lockPort(tx, call)
    if (port === null) return null
    await deletePort(tx, port.id)
    return { workspace, port }
  }
  await changing(deps, call, work, (closed) => closed && portSubject(closed.workspace, closed.port))
  return { status: 204 }
}
