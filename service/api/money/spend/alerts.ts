import type { spendAlertsGet, spendAlertsPut } from '../../../../contract/routes/app/money.ts'
import type { SpendAlerts } from '../../../../contract/schemas/spend.ts'
import { periodOf } from '../../../core/money/usage/period.ts'
import { readSpend, thresholdsOf } from '../../../core/money/usage/spend-store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { periodView } from './facts.ts'
import { listAlerts, writeThresholds } from './alert-store.ts'
import type { ChangeDeps, ReadDeps } from '../../calls/deps.ts'

export async function getSpendAlerts({ who, params, now }: Call<typeof spendAlertsGet>, deps: ReadDeps): Promise<Reply> {
  const { organization_id } = params
  const row = maySeeOrganization(who, organization_id) ? await readSpend(deps.reads, organization_id) : null
  if (row === null) throw notFound('organization')
  return answerOf(deps, organization_id, thresholdsOf(row), now)
}

export async function putSpendAlerts(call: Call<typeof spendAlertsPut>, deps: ChangeDeps & ReadDeps): Promise<Reply> {
  const { who, now, body } = call
  const { organization_id } = call.params
  if (!maySeeOrganization(who, organization_id)) throw notFound('organization')
  const thresholds_percent = body.thresholds_percent.toSorted((a, b) => a - b)
  const work = (tx: Parameters<typeof writeThresholds>[0]) => writeThresholds(tx, { organization_id, thresholds_percent, changed_at: now })
  await changing(deps, call, work, () => {
    const details = { thresholds_percent: thresholds_percent.map(String) }
    return { kind: 'organization', id: organization_id, organization_id, project_id: null, details }
  })
  return answerOf(deps, organization_id, thresholds_percent, now)
}

async function answerOf({ reads }: ReadDeps, organization_id: string, thresholds_percent: readonly number[], now: Date): Promise<Reply> {
  const period = periodOf(now)
  const reached = await listAlerts(reads, organization_id, period.starts_at)
  const body: SpendAlerts = {
    organization_id,
    thresholds_percent: [...thresholds_percent],
    period: periodView(period),
    reached: reached.map(({ subject, threshold_percent, reached_at, mailed_at }) => ({
      subject,
      threshold_percent,
      reached_at: reached_at.toISOString(),
      mailed_at: mailed_at?.toISOString() ?? null,
    })),
  }
  return { status: 200, body }
}
