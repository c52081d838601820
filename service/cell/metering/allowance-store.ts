import type { Exhausted } from '../../core/usage/spend.ts'
import { SPEND_COLUMNS, type SpendRow } from '../../core/usage/spend-store.ts'
import type { Db } from '../../db/database.ts'
import type { Reader } from '../../db/reader.ts'

export interface Judged extends SpendRow {
  organization_id: string
  allowance: object | null
}

/** Organizations whose usage grows on this cell and whose plan includes so much, and those for which something is used up. */
export function readJudged(reads: Reader, cell_id: string): Promise<Judged[]> {
  return reads.rows(
    'usage.judged',
    `select g.id as organization_id, g.allowance, ${SPEND_COLUMNS}
     from organizations g join plans p on p.id = g.plan_id left join spend_policies s on s.organization_id = g.id
     where g.allowance_exhausted is not null or ((p.cpu_hours is not null or p.ram_gib_hours is not null)
       and exists (select from workspaces w where w.organization_id = g.id and w.cell_id = $1 and w.observed_state = 'running'))
     order by g.id`,
    [cell_id],
  )
}

/** @param before what was found, as it was read: somebody else's word stays. */
export async function writeAllowance(
  db: Db,
  { organization_id, allowance_exhausted: before }: Pick<Judged, 'organization_id' | 'allowance_exhausted'>,
  found: Exhausted | null,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('organizations')
    .set({ allowance_exhausted: found?.reason ?? null, allowance: found === null ? null : JSON.stringify(found.state) })
    .where('id', '=', organization_id)
    .where('allowance_exhausted', 'is not distinct from', before)
    .executeTakeFirst()
  return Number(numUpdatedRows) > 0
}
