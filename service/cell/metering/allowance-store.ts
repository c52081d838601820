import type { Reached } from '../../core/money/usage/alerts.ts'
import type { Exhausted } from '../../core/money/usage/spend.ts'
import { SPEND_COLUMNS, type SpendRow } from '../../core/money/usage/spend-store.ts'
import type { Db } from '../../db/database.ts'
import type { Reader } from '../../db/reader.ts'

export interface Judged extends SpendRow {
  organization_id: string
  allowance: object | null
  has_grants: boolean
  /** Alerts already recorded in this period, for example `spend_cap 80`. */
  told: string[]
}

export function readJudged(reads: Reader, cell_id: string, period_starts_at: Date): Promise<Judged[]> {
  return reads.rows(
    'usage.judged',
    `select g.id as organization_id, g.allowance, ${SPEND_COLUMNS},
       exists (select from usage_grants c where c.organization_id = g.id) as has_grants,
       array(select a.subject || ' ' || a.threshold_percent from spend_alerts a where a.organization_id = g.id and a.period_starts_at = $2) as told
     from organizations g join plans p on p.id = g.plan_id left join spend_policies s on s.organization_id = g.id
     where g.allowance_exhausted is not null or ((p.cpu_hours is not null or p.ram_gib_hours is not null)
       and exists (select from workspaces w where w.organization_id = g.id and w.cell_id = $1 and w.observed_state = 'running'))
     order by g.id`,
    [cell_id, period_starts_at],
  )
}

/** Writes only over the value that was read: a concurrent change is not lost. */
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

/** Several cells may find the same alert: it is inserted once. */
export async function insertAlerts(
  db: Db,
  of: { organization_id: string; period_starts_at: Date; reached_at: Date },
  reached: readonly (Reached & { id: string })[],
): Promise<void> {
  if (reached.length === 0) return
  await db
    .insertInto('spend_alerts')
    .values(reached.map((one) => ({ ...one, ...of, mailed_at: null })))
    .onConflict((on) => on.doNothing())
    .execute()
}
