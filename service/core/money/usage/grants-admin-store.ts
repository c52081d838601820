import { sql, type Insertable } from 'kysely'
import type { Db } from '../../../db/database.ts'
import type { Database } from '../../../db/schema.ts'
import type { ChangeTx } from '../../changes/mutate.ts'

export async function insertGrant(tx: ChangeTx, grant: Insertable<Database['usage_grants']>): Promise<void> {
  await tx.insertInto('usage_grants').values(grant).execute()
}

export async function revokeGrant(tx: ChangeTx, id: string, revoked_at: Date): Promise<string | undefined> {
  const row = await tx
    .updateTable('usage_grants')
    .set({ revoked_at })
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .returning('organization_id')
    .executeTakeFirst()
  return row?.organization_id
}

export function listAllGrants(db: Db, organization_id: string) {
  return db
    .selectFrom('usage_grants as g')
    .select([
      'g.id',
      'g.allowance',
      'g.granted_meter_units',
      sql<number>`(select coalesce(sum(d.meter_units), 0)::bigint from usage_grant_draws d where d.grant_id = g.id)`.as(
        'drawn_meter_units',
      ),
      'g.note',
      'g.created_at',
      'g.expires_at',
      'g.revoked_at',
    ])
    .where('g.organization_id', '=', organization_id)
    .orderBy('g.created_at')
    .execute()
}
