import type { usageGrants } from '../../../../contract/routes/app/money.ts'
import { METER_UNITS, type UsageGrant } from '../../../../contract/schemas/spend.ts'
import { remainingOf } from '../../../core/money/usage/grants.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { listGrants, type GrantRow } from './store.ts'
import type { PageDeps } from '../../calls/deps.ts'

export async function listGrantsOfOrganization(call: Call<typeof usageGrants>, deps: PageDeps): Promise<Reply> {
  const { organization_id } = call.params
  if (!maySeeOrganization(call.who, organization_id)) throw notFound('organization')
  const rows = await listGrants(deps.reads, organization_id, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, (row) => grantView(row, call.now)) }
}

function grantView(row: GrantRow, now: Date): UsageGrant {
  const { id, organization_id, allowance, granted_meter_units, drawn_meter_units, note } = row
  const remaining_meter_units = remainingOf(row, now)
  return {
    id,
    organization_id,
    allowance,
    state: stateOf(row, now),
    granted: granted_meter_units / METER_UNITS,
    granted_meter_units,
    drawn_meter_units,
    remaining_meter_units,
    note,
    created_at: row.created_at.toISOString(),
    expires_at: row.expires_at?.toISOString() ?? null,
  }
}

function stateOf({ revoked_at, expires_at, drawn_meter_units, granted_meter_units }: GrantRow, now: Date): UsageGrant['state'] {
  if (revoked_at !== null) return 'revoked'
  if (drawn_meter_units >= granted_meter_units) return 'used_up'
  return expires_at !== null && expires_at <= now ? 'expired' : 'active'
}
