import type { Grant } from '../../../core/money/usage/grants.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Page } from '../../calls/pages.ts'

export interface GrantRow extends Omit<Grant, 'drawn_in_period'> {
  organization_id: string
  note: string
}

export function listGrants(reads: Reader, organization_id: string, { below, limit }: Page): Promise<GrantRow[]> {
  const first = below === null
  return reads.rows(
    first ? 'usage.grants_list' : 'usage.grants_list:b',
    `select g.*, (select coalesce(sum(d.meter_units), 0)::bigint from usage_grant_draws d where d.grant_id = g.id) as drawn_meter_units
     from usage_grants g where g.organization_id = $1 ${first ? '' : 'and uuid_send(g.id) < uuid_send($3::uuid)'}
     order by uuid_send(g.id) desc limit $2`,
    [organization_id, limit + 1, ...(first ? [] : [below])],
  )
}
