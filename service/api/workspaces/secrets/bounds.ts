import { LIMITS } from '../../../../contract/limits.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { fail } from '../../../lib/fail.ts'
import { countSecrets, lockSecrets } from './store.ts'

const { per_project_max, per_organization_max } = LIMITS.secret

/** Locks the counts, so that concurrent creations cannot exceed a limit. */
export async function checkSecretLimits(tx: ChangeTx, owner: { organization_id: string; project_id: string | null }): Promise<void> {
  await lockSecrets(tx, owner.organization_id)
  const { of_project, of_organization } = await countSecrets(tx, owner)
  if (owner.project_id !== null && of_project >= per_project_max) throw tooMany('secrets_per_project', per_project_max, of_project)
  if (of_organization >= per_organization_max) throw tooMany('secrets_per_organization', per_organization_max, of_organization)
}

function tooMany(limit: string, limit_value: number, current: number) {
  return fail('quota_exceeded', null, `There are ${current} secrets already: delete some first`, {
    details: { limit, limit_value, current },
  })
}
