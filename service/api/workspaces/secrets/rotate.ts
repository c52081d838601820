import type { secretVersionsCreate } from '../../../../contract/routes/app/secrets.ts'
import type { SecretVersion } from '../../../../contract/schemas/secrets.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { takeOfDay } from '../../calls/daily/take.ts'
import { changeAndAnswer, type CommandResult } from '../../calls/idempotency/change.ts'
import { findSecret, lockSecretForChange, refuseDeletedSecret } from './find.ts'
import { checkValue, checkValueForHosts } from './rules.ts'
import { sealForCells } from './seal.ts'
import { eraseVersions, insertVersion, takeRotation, writeSecret } from './store.ts'
import { versionView } from './view.ts'
import type { ChangeDeps, ReadDeps } from '../../calls/deps.ts'

interface Rotated extends CommandResult {
  version: SecretVersion
}

/** Stores the new value and erases earlier values in one transaction. */
export async function rotateSecret(call: Call<typeof secretVersionsCreate>, deps: ChangeDeps & ReadDeps): Promise<Reply> {
  checkValue(call.body.value)
  await findSecret(deps, call) // checks access first, because the lock's conflict would reveal that the secret exists
  const work = async (tx: ChangeTx): Promise<Rotated> => {
    if (!(await takeRotation(tx, call.params.secret_id))) {
      throw fail('conflict', 'concurrent_rotation', 'The secret is being rotated by another request', { retry_after_seconds: 1 })
    }
    const secret = await lockSecretForChange(tx, call)
    refuseDeletedSecret(secret)
    checkValueForHosts(call.body.value, secret.hosts)
    const { id: secret_id, organization_id, project_id, name } = secret
    const version = secret.version + 1
    const row = { id: deps.ids.next(), secret_id, version, created_at: call.now }
    await insertVersion(tx, row, await sealForCells(tx, { organization_id, secret_id, version }, call.body.value))
    await eraseVersions(tx, secret_id, version, call.now)
    await writeSecret(tx, secret_id, { version }, call.now)
    await takeOfDay(tx, 'secret_values', organization_id, call.now)
    return {
      status: 201,
      scope: { organization_id, project_id },
      workspace_id: null,
      operation_id: null,
      changed: { kind: 'secret', id: secret_id, details: { name, version } },
      version: versionView({ ...row, erased_at: null }),
    }
  }
  return changeAndAnswer(deps, call, work, async (_reads, { version }) => version)
}
