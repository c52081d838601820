import { LIMITS } from '../../../contract/limits.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import { fail } from '../../lib/fail.ts'
import { countSecrets, lockSecrets, takeFromBudget } from './store.ts'

const { per_project_max, per_organization_max, values_per_organization_and_day } = LIMITS.secret
const DAY_MS = 24 * 3600 * 1000

/** Whether one more secret may be made. Creates of an organization wait for each other, so that two at once do not both find the last place. */
export async function checkRoom(tx: ChangeTx, owner: { organization_id: string; project_id: string | null }): Promise<void> {
  await lockSecrets(tx, owner.organization_id)
  const { of_project, of_organization } = await countSecrets(tx, owner)
  if (owner.project_id !== null && of_project >= per_project_max) throw tooMany('secrets_per_project', per_project_max, of_project)
  if (of_organization >= per_organization_max) throw tooMany('secrets_per_organization', per_organization_max, of_organization)
}

/** Counts a value that is written. A day after the first one the budget is full again. */
export async function takeValue(tx: ChangeTx, organization_id: string, now: Date): Promise<void> {
  const began = await takeFromBudget(
    tx,
    `secret_values:${organization_id}`,
    values_per_organization_and_day,
    new Date(now.getTime() - DAY_MS),
    now,
  )
  if (began === null) return
  const retry_after_seconds = Math.max(1, Math.ceil((began.getTime() + DAY_MS - now.getTime()) / 1000))
  throw fail('rate_limited', null, 'The organization has written as many values of secrets as it may in a day', { retry_after_seconds })
}

function tooMany(limit: string, limit_value: number, current: number) {
  return fail('quota_exceeded', null, `There are ${current} secrets already: delete some first`, {
    details: { limit, limit_value, current },
  })
}
