import { sql } from 'kysely'
import type { NormalSecretHost } from '../../../contract/schemas/secrets.ts'
import type { Db } from '../../db/database.ts'
import type { Reader, Tx } from '../../db/reader.ts'

export interface SealingKeyRow {
  key_id: string
  public_jwk: object
  created_at: Date
}

/** Lists the keys, newest first: new values are sealed for the newest. */
export function listSealingKeys(db: Db): Promise<SealingKeyRow[]> {
  return db.selectFrom('sealing_keys').selectAll().orderBy('created_at', 'desc').orderBy('key_id').execute()
}

/** Name of the advisory lock that sealing transactions share. */
export const SEALING = 'berth sealing'

/** Shares the lock, so that a rotation waits until this transaction ends. */
export async function lockNewestKey(tx: Tx): Promise<SealingKeyRow | null> {
  await sql`select pg_advisory_xact_lock_shared(hashtextextended(${SEALING}, 0))`.execute(tx)
  const [newest] = await listSealingKeys(tx)
  return newest ?? null
}

export async function insertFirstSealingKey(db: Db, { key_id, public_jwk, created_at }: SealingKeyRow): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await sql`select pg_advisory_xact_lock(hashtextextended('berth first sealing key', 0))`.execute(tx)
    await sql`insert into sealing_keys (key_id, public_jwk, created_at)
      select ${key_id}, ${JSON.stringify(public_jwk)}::jsonb, ${created_at} where not exists (select from sealing_keys)`.execute(tx)
  })
}

/** $1: organization, $2: project; `n` has the names. */
export const MEANT_BY_NAME = `lateral (
  select * from (
    select p.* from secrets p where p.project_id = $2 and p.name = n.name and p.deleted_at is null
    union all
    select o.* from secrets o where o.organization_id = $1 and o.project_id is null and o.name = n.name and o.deleted_at is null
  ) found order by project_id nulls last limit 1) s`

export interface ResolvedSecret {
  name: string
  allowed_project_ids: string[] | null
  allowed_workspace_ids: string[] | null
  allowed_tools: string[]
  /** null: the value is in the environment. */
  hosts: NormalSecretHost[] | null
}

interface Scope {
  organization_id: string
  project_id: string
}

export function secretsNamed(reads: Reader, { organization_id, project_id }: Scope, names: readonly string[]): Promise<ResolvedSecret[]> {
  return reads.rows(
    'secrets.named',
    `select n.name, s.allowed_project_ids, s.allowed_workspace_ids, s.allowed_tools, s.hosts
     from unnest($3::text[]) n (name) join ${MEANT_BY_NAME} on true order by n.name`,
    [organization_id, project_id, names],
  )
}

/** A secret must not be deleted while a binding to it is created. */
export async function lockNamedSecrets(tx: Tx, { organization_id, project_id }: Scope, names: readonly string[]): Promise<void> {
  await sql`select 1 from secrets where organization_id = ${organization_id} and (project_id = ${project_id} or project_id is null)
    and name = any(${names}) and deleted_at is null order by id for share`.execute(tx)
}

export async function boundNames(reads: Reader, workspace_id: string): Promise<string[]> {
  const text = 'select name from workspace_secrets where workspace_id = $1 order by name'
  return (await reads.rows<{ name: string }>('secrets.bound', text, [workspace_id])).map(({ name }) => name)
}
