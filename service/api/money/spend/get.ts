import type { spendGet } from '../../../../contract/routes/app/money.ts'
import type { Spend } from '../../../../contract/schemas/spend.ts'
import { spendCapOf } from '../../../core/money/usage/spend.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import { periodView, readSpendFacts } from './facts.ts'
import type { ReadDeps } from '../../calls/deps.ts'

export async function getSpend({ who, params, now }: Call<typeof spendGet>, { reads }: ReadDeps): Promise<Reply> {
  const { organization_id } = params
  if (!maySeeOrganization(who, organization_id)) throw notFound('organization')
  const facts = await readSpendFacts(reads, organization_id, now)
  const body: Spend = { organization_id, period: periodView(facts.period), spend_cap: spendCapOf(facts, now) }
  return { status: 200, body }
}
