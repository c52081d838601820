import { sql, type Insertable, type Selectable } from 'kysely'
import type { Role } from '../../../../contract/access.ts'
import type { AlertSubject } from '../../../../contract/schemas/spend.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Db } from '../../../db/database.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Database } from '../../../db/schema.ts'

/** Needs no pages: subjects times thresholds bound the number of alerts. */
export function listAlerts(
  reads: Reader,
  organization_id: string,
  period_starts_at: Date,
): Promise<Selectable<Database['spend_alerts']>[]> {
  return reads.rows(
    'spend.alerts',
    `select * from spend_alerts where organization_id = $1 and period_starts_at = $2 order by reached_at desc, subject, threshold_percent desc`,
    [organization_id, period_starts_at],
  )
}

export async function writeThresholds(tx: ChangeTx, settings: Insertable<Database['spend_alert_settings']>): Promise<void> {
  const { thresholds_percent, changed_at } = settings
  await tx
    .insertInto('spend_alert_settings')
    .values(settings)
    .onConflict((on) => on.column('organization_id').doUpdateSet({ thresholds_percent, changed_at }))
    .execute()
}

export async function findWaitingAlerts(db: Db, organizations_max: number): Promise<string[]> {
  const { rows } = await sql<{ organization_id: string }>`
    select organization_id from spend_alerts where mailed_at is null group by 1 order by min(reached_at) limit ${organizations_max}`.execute(
    db,
  )
  return rows.map(({ organization_id }) => organization_id)
}

export interface Alert {
  id: string
  subject: AlertSubject
  threshold_percent: number
}

/** Returns only the highest alert of each subject and period, which implies the lower ones. */
export async function takeAlerts(tx: ChangeTx, organization_id: string, mailed_at: Date): Promise<Alert[]> {
  const { rows } = await sql<Alert>`
    with taken as (
      update spend_alerts set mailed_at = ${mailed_at} where organization_id = ${organization_id} and mailed_at is null
      returning id, period_starts_at, subject, threshold_percent
    )
    select distinct on (period_starts_at, subject) id, subject, threshold_percent from taken
    order by period_starts_at, subject, threshold_percent desc`.execute(tx)
  return rows
}

export function listRecipients(tx: ChangeTx, organization_id: string, roles: readonly Role[]): Promise<{ id: string; email: string }[]> {
  return tx
    .selectFrom('memberships as m')
    .innerJoin('people as p', 'p.id', 'm.person_id')
    .select(['p.id', 'p.email'])
    .where('m.organization_id', '=', organization_id)
    .where('m.role', 'in', roles)
    .where('p.email_verified', '=', true)
    .orderBy('p.id')
    .execute()
}
