import type { secretsDelete } from '../../../../contract/routes/app/secrets.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { lockSecretForChange, secretSubject } from './find.ts'
import { eraseVersions, markDeleted, unbind } from './store.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

export async function deleteSecret(call: Call<typeof secretsDelete>, deps: ChangeDeps): Promise<Reply> {
  const work = async (tx: ChangeTx) => {
    const secret = await lockSecretForChange(tx, call)
    if (secret.deleted_at !== null) return null
    await markDeleted(tx, secret.id, call.now)
    await eraseVersions(tx, secret.id, null, call.now)
    await unbind(tx, secret)
    return secret
  }
  await changing(deps, call, work, (secret) => secret && secretSubject(secret))
  return { status: 204 }
}
