import type { SpendFacts } from '../../../core/money/usage/spend.ts'
import { grantedBy } from '../../../core/money/usage/grants.ts'
import { readGrants } from '../../../core/money/usage/grant-store.ts'
import { readSpend, type SpendRow } from '../../../core/money/usage/spend-store.ts'
import { periodOf, rangeOf } from '../../../core/money/usage/period.ts'
import { readUsageTotals } from '../../../core/money/usage/store.ts'
import type { Reader } from '../../../db/reader.ts'
import { notFound } from '../../calls/scope.ts'

export async function readSpendFacts(reads: Reader, organization_id: string, now: Date): Promise<SpendFacts & { row: SpendRow }> {
  const period = periodOf(now)
  const [row, used, grants] = await Promise.all([
    readSpend(reads, organization_id),
    readUsageTotals(reads, { organization_id, project_id: null, subject: null }, rangeOf(period)),
    readGrants(reads, organization_id, period.starts_at),
  ])
  if (row === null) throw notFound('organization')
  return { row, prices: row, choice: row, used, granted: grantedBy(grants, now), period, past_due: row.past_due }
}

export function periodView({ starts_at, ends_at }: SpendFacts['period']): { starts_at: string; ends_at: string } {
  return { starts_at: starts_at.toISOString(), ends_at: ends_at.toISOString() }
}
