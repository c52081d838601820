import { sql } from 'kysely'
import type { NormalSecretHost } from '../../../../contract/schemas/secrets.ts'
import type { Tool } from '../../../../contract/tools.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { SealedSecret } from '../../../core/secrets/envelope.ts'
import { readerOf, type Reader, type Tx } from '../../../db/reader.ts'
import type { Page } from '../../calls/pages.ts'

export interface SecretRow {
  id: string
  organization_id: string
  project_id: string | null
  name: string
  description: string | null
  allowed_project_ids: string[] | null
  allowed_workspace_ids: string[] | null
  allowed_tools: Tool[]
  hosts: NormalSecretHost[] | null
  version: number
  created_at: Date
  updated_at: Date
  deleted_at: Date | null
}

const COLUMNS =
  'id, organization_id, project_id, name, description, allowed_project_ids, allowed_workspace_ids, allowed_tools, hosts, version, created_at, updated_at, deleted_at'

export async function readSecret(reads: Reader, id: string): Promise<SecretRow | null> {
  const [row] = await reads.rows<SecretRow>('secrets.by_id', `select ${COLUMNS} from secrets where id = $1`, [id])
  return row ?? null
}

export async function lockSecret(tx: Tx, id: string): Promise<SecretRow | null> {
  await sql`select 1 from secrets where id = ${id} for no key update`.execute(tx)
  return readSecret(readerOf(tx), id)
}

/** @returns false if another call is rotating the secret. */
export async function takeRotation(tx: Tx, id: string): Promise<boolean> {
  const name = `berth secret ${id}`
  const { rows } = await sql<{ taken: boolean }>`select pg_try_advisory_xact_lock(hashtextextended(${name}, 0)) as taken`.execute(tx)
  return rows[0]?.taken === true
}

export type SecretScope = { project_id: string } | { organization_id: string }

export function listSecrets(reads: Reader, scope: SecretScope, include_deleted: boolean, page: Page): Promise<SecretRow[]> {
  const { below, limit } = page
  const of_project = 'project_id' in scope
  const whose = of_project ? 'project_id = $1' : 'organization_id = $1 and project_id is null'
  const live = include_deleted ? '' : 'and deleted_at is null'
  return reads.rows(
    `secrets.of_${of_project ? 'project' : 'organization'}${include_deleted ? ':d' : ''}${below === null ? '' : ':b'}`,
    `select ${COLUMNS} from secrets where ${whose} ${live} ${below === null ? '' : 'and uuid_send(id) < uuid_send($3::uuid)'}
     order by uuid_send(id) desc limit $2`,
    [of_project ? scope.project_id : scope.organization_id, limit + 1, ...(below === null ? [] : [below])],
  )
}

export async function lockSecrets(tx: Tx, organization_id: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`secrets of ${organization_id}`}, 0))`.execute(tx)
}

/** `of_organization` also counts the secrets of all its projects. */
export async function countSecrets(
  tx: Tx,
  owner: { organization_id: string; project_id: string | null },
): Promise<{ of_project: number; of_organization: number }> {
  const { rows } = await sql<{ of_project: number; of_organization: number }>`
    with live as (
      select s.project_id from projects p join secrets s on s.project_id = p.id and s.deleted_at is null where p.organization_id = ${owner.organization_id}
      union all
      select null from secrets where organization_id = ${owner.organization_id} and project_id is null and deleted_at is null
    )
    select count(*) filter (where project_id = ${owner.project_id}::uuid)::int as of_project, count(*)::int as of_organization
    from live`.execute(tx)
  const [row] = rows
  if (row === undefined) throw new Error('a count has no row')
  return row
}

/** @returns false if the name is taken. */
export async function insertSecret(tx: ChangeTx, secret: Omit<SecretRow, 'updated_at' | 'deleted_at'>): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('secrets')
    .values({ ...secret, hosts: asJson(secret.hosts), updated_at: secret.created_at, deleted_at: null })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows === 1n
}

export interface NewVersion {
  id: string
  secret_id: string
  version: number
  created_at: Date
}

export async function insertVersion(tx: ChangeTx, version: NewVersion, sealed: SealedSecret): Promise<void> {
  await tx
    .insertInto('secret_versions')
    .values({ ...version, ...sealed, erased_at: null })
    .execute()
}

export async function eraseVersions(tx: ChangeTx, secret_id: string, below: number | null, now: Date): Promise<void> {
  const all = tx
    .updateTable('secret_versions')
    .set({ erased_at: now, key_id: null, wrapped_key: null, ciphertext: null })
    .where('secret_id', '=', secret_id)
    .where('erased_at', 'is', null)
  await (below === null ? all : all.where('version', '<', below)).execute()
}

export async function writeSecret(
  tx: ChangeTx,
  id: string,
  {
    hosts,
    ...changes
  }: Partial<Pick<SecretRow, 'description' | 'allowed_project_ids' | 'allowed_workspace_ids' | 'allowed_tools' | 'hosts' | 'version'>>,
  now: Date,
): Promise<void> {
  await tx
    .updateTable('secrets')
    .set({ ...changes, ...(hosts === undefined ? {} : { hosts: asJson(hosts) }), updated_at: now })
    .where('id', '=', id)
    .execute()
}

export async function markDeleted(tx: ChangeTx, id: string, now: Date): Promise<void> {
  await tx.updateTable('secrets').set({ deleted_at: now, updated_at: now }).where('id', '=', id).execute()
}

/** A binding to a project's own secret of the same name remains. */
export async function unbind(tx: ChangeTx, { organization_id, project_id, name }: SecretRow): Promise<void> {
  const bindings = tx.deleteFrom('workspace_secrets').where('name', '=', name)
  if (project_id !== null) {
    await bindings.where('project_id', '=', project_id).execute()
    return
  }
  await bindings
    .where((e) => e('project_id', 'in', e.selectFrom('projects as p').select('p.id').where('p.organization_id', '=', organization_id)))
    .where((e) =>
      e.not(
        e.exists(
          e
            .selectFrom('secrets as s')
            .select('s.id')
            .whereRef('s.project_id', '=', 'workspace_secrets.project_id')
            .where('s.name', '=', name)
            .where('s.deleted_at', 'is', null),
        ),
      ),
    )
    .execute()
}

export interface VersionRow {
  id: string
  secret_id: string
  version: number
  created_at: Date
  erased_at: Date | null
}

export function listVersions(reads: Reader, secret_id: string, { below, limit }: Page): Promise<VersionRow[]> {
  return reads.rows(
    below === null ? 'secret_versions.of_secret' : 'secret_versions.of_secret:b',
    `select id, secret_id, version, created_at, erased_at from secret_versions
     where secret_id = $1 ${below === null ? '' : 'and uuid_send(id) < uuid_send($3::uuid)'} order by uuid_send(id) desc limit $2`,
    [secret_id, limit + 1, ...(below === null ? [] : [below])],
  )
}

export function unknownWorkspaces(reads: Reader, scope: SecretScope, ids: readonly string[]): Promise<{ id: string }[]> {
  const of_project = 'project_id' in scope
  return reads.rows(
    `secrets.unknown_workspaces_of_${of_project ? 'project' : 'organization'}`,
    `select n.id from unnest($1::uuid[]) n (id) left join workspaces w on w.id = n.id and w.${of_project ? 'project_id' : 'organization_id'} = $2
     where w.id is null`,
    [ids, of_project ? scope.project_id : scope.organization_id],
  )
}

export function unknownProjects(reads: Reader, organization_id: string, ids: readonly string[]): Promise<{ id: string }[]> {
  return reads.rows(
    'secrets.unknown_projects',
    'select n.id from unnest($1::uuid[]) n (id) left join projects p on p.id = n.id and p.organization_id = $2 where p.id is null',
    [ids, organization_id],
  )
}

interface BoundWorkspace {
  id: string
  project_id: string
}

export async function writeBinding(tx: ChangeTx, { id, project_id }: BoundWorkspace, names: readonly string[]): Promise<void> {
  await tx.deleteFrom('workspace_secrets').where('workspace_id', '=', id).execute()
  if (names.length === 0) return
  await tx
    .insertInto('workspace_secrets')
    .values(names.map((name) => ({ workspace_id: id, project_id, name })))
    .execute()
}

export async function copyBinding(tx: ChangeTx, from: string, { id, project_id }: BoundWorkspace): Promise<void> {
  await sql`insert into workspace_secrets (workspace_id, project_id, name)
    select ${id}, ${project_id}, name from workspace_secrets where workspace_id = ${from}`.execute(tx)
}

/** The processes in the fork's memory trust the same authority. */
export async function copyAuthority(tx: ChangeTx, from: string, to: string): Promise<void> {
  await sql`insert into workspace_authorities (workspace_id, authority_id)
    select ${to}, authority_id from workspace_authorities where workspace_id = ${from}`.execute(tx)
}

/** Converts to JSON, because the driver would send a list as a PostgreSQL array. */
function asJson(hosts: NormalSecretHost[] | null): string | null {
  return hosts === null ? null : JSON.stringify(hosts)
}
