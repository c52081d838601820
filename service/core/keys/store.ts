import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { Database } from '../../db/schema.ts'
import type { ChangeTx } from '../changes/mutate.ts'

export async function insertApiKey(tx: ChangeTx, key: Insertable<Database['api_keys']>): Promise<void> {
  await tx.insertInto('api_keys').values(key).execute()
}

export function findApiKey(db: Db, key_id: string): Promise<Selectable<Database['api_keys']> | undefined> {
  return db.selectFrom('api_keys').selectAll().where('key_id', '=', key_id).executeTakeFirst()
}

export async function anyApiKey(db: Db): Promise<boolean> {
  return (await db.selectFrom('api_keys').select('id').limit(1).executeTakeFirst()) !== undefined
}

export function listApiKeys(db: Db) {
  return db
    .selectFrom('api_keys')
    .innerJoin('organizations', 'organizations.id', 'api_keys.organization_id')
    .innerJoin('projects', 'projects.id', 'api_keys.project_id')
    .select([
      'api_keys.key_id',
      'api_keys.name',
      'organizations.slug as organization',
      'projects.slug as project',
      'api_keys.tool_permissions',
      'api_keys.created_at',
      'api_keys.expires_at',
      'api_keys.revoked_at',
    ])
    .orderBy('api_keys.id')
    .execute()
}

export function revokeApiKey(tx: ChangeTx, key_id: string, now: Date) {
  return tx
    .updateTable('api_keys')
    .set({ revoked_at: now })
    .where('key_id', '=', key_id)
    .where('revoked_at', 'is', null)
    .returning(['id', 'organization_id', 'project_id'])
    .executeTakeFirst()
}

export async function setApiKeyTools(
  tx: ChangeTx,
  key_id: string,
  change: { tool_permissions: string[]; tools_changed_at?: Date },
): Promise<void> {
  await tx.updateTable('api_keys').set(change).where('key_id', '=', key_id).execute()
}
