import type { Selectable } from 'kysely'
import type { Tool } from '../../../../contract/tools.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Db } from '../../../db/database.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Database } from '../../../db/schema.ts'
import type { Page } from '../../calls/pages.ts'

export interface KeyRow {
  id: string
  key_id: string
  organization_id: string
  project_id: string
  name: string
  tool_permissions: Tool[]
  created_at: Date
  expires_at: Date | null
  revoked_at: Date | null
  last_used_at: Date | null
}

const KEY = `select k.id, k.key_id, k.organization_id, k.project_id, k.name, k.tool_permissions, k.created_at, k.expires_at, k.revoked_at,
  u.last_used_at from api_keys k left join api_key_uses u on u.api_key_id = k.id where k.project_id = $1`

export async function readKey(reads: Reader, project_id: string, id: string): Promise<KeyRow | null> {
  const [row] = await reads.rows<KeyRow>('api_keys.one', `${KEY} and k.id = $2`, [project_id, id])
  return row ?? null
}

export function listKeys(reads: Reader, project_id: string, include_revoked: boolean, { below, limit }: Page): Promise<KeyRow[]> {
  const [first, all] = [below === null, include_revoked]
  return reads.rows(
    `api_keys.list:${all ? 'a' : ''}${first ? '' : 'b'}`,
    `${KEY} ${all ? '' : 'and k.revoked_at is null'} ${first ? '' : 'and uuid_send(k.id) < uuid_send($3::uuid)'}
     order by uuid_send(k.id) desc limit $2`,
    [project_id, limit + 1, ...(first ? [] : [below])],
  )
}

export function lockKey(tx: ChangeTx, project_id: string, id: string): Promise<Selectable<Database['api_keys']> | undefined> {
  return tx.selectFrom('api_keys').selectAll().where('id', '=', id).where('project_id', '=', project_id).forUpdate().executeTakeFirst()
}

export async function countKeys(tx: ChangeTx, project_id: string): Promise<number> {
  const { count } = await tx
    .selectFrom('api_keys')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('project_id', '=', project_id)
    .where('revoked_at', 'is', null)
    .executeTakeFirstOrThrow()
  return count
}

export type KeyChange = Partial<
  Pick<Selectable<Database['api_keys']>, 'name' | 'tool_permissions' | 'expires_at' | 'revoked_at' | 'tools_changed_at'>
>

export async function writeKey(tx: ChangeTx, id: string, change: KeyChange): Promise<void> {
  await tx.updateTable('api_keys').set(change).where('id', '=', id).execute()
}

export async function noteKeyUse(db: Db, api_key_id: string, now: Date): Promise<void> {
  await db
    .insertInto('api_key_uses')
    .values({ api_key_id, last_used_at: now })
    .onConflict((conflict) => conflict.column('api_key_id').doUpdateSet({ last_used_at: now }))
    .execute()
}
