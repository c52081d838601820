import { sql } from 'kysely'
import type { SealedAuthority } from '../../../core/secrets/authority.ts'
import type { SealedSecret } from '../../../core/secrets/envelope.ts'
import { MEANT_BY_NAME, type ResolvedSecret } from '../../../core/secrets/store.ts'
import type { Db } from '../../../db/database.ts'
import { readerOf, type Reader, type Tx } from '../../../db/reader.ts'

export interface FoundSecret extends ResolvedSecret, SealedSecret {
  secret_id: string
  organization_id: string
  version: number
  is_bound: boolean
}

export interface SecretLookup {
  id: string
  organization_id: string
  project_id: string
}

export function findSecrets(reads: Reader, workspace: SecretLookup, names: readonly string[]): Promise<FoundSecret[]> {
  const { id, organization_id, project_id } = workspace
  return reads.rows<FoundSecret>(
    'cell.secrets',
    `select n.name, n.is_bound, s.id as secret_id, s.organization_id, s.allowed_project_ids, s.allowed_workspace_ids, s.allowed_tools, s.hosts,
       v.version, v.key_id, v.wrapped_key, v.ciphertext
     from (select name, bool_or(is_bound) as is_bound from (
       select name, true as is_bound from workspace_secrets where workspace_id = $3 union all select unnest($4::text[]), false) named
       group by name) n
     join ${MEANT_BY_NAME} on true
     join secret_versions v on v.secret_id = s.id and v.version = s.version and v.key_id is not null`,
    [organization_id, project_id, id, names],
  )
}

/** @returns null if the workspace has no machine of this epoch on the cell */
export async function workspaceOfEpoch(reads: Reader, cell_id: string, workspace_id: string, epoch: number): Promise<SecretLookup | null> {
  const [row] = await reads.rows<SecretLookup>(
    'cell.secrets_of_epoch',
    `select w.id, w.organization_id, w.project_id from workspaces w
     where w.id = $1 and w.cell_id = $2 and w.deleted_at is null and case w.mode
       when 'file_first' then exists (select from machines m where m.kind = 'execution' and m.id = w.id and m.epoch = $3)
       else w.ownership_epoch = $3 end`,
    [workspace_id, cell_id, epoch],
  )
  return row ?? null
}

export interface AuthorityRow extends SealedAuthority {
  certificate: string
}

export async function readAuthority(reads: Reader, workspace_id: string): Promise<AuthorityRow | null> {
  const [row] = await reads.rows<AuthorityRow>(
    'cell.authority',
    `select a.id, a.certificate, a.key_id, a.sealed_key from workspace_authorities w join authorities a on a.id = w.authority_id
     where w.workspace_id = $1`,
    [workspace_id],
  )
  return row ?? null
}

export async function insertAuthority(
  db: Db,
  workspace_id: string,
  make: (tx: Tx) => Promise<AuthorityRow & { created_at: Date }>,
): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await sql`select pg_advisory_xact_lock(hashtextextended(${`berth authority ${workspace_id}`}, 0))`.execute(tx)
    if ((await readAuthority(readerOf(tx), workspace_id)) !== null) return
    const authority = await make(tx)
    await tx.insertInto('authorities').values(authority).execute()
    await tx.insertInto('workspace_authorities').values({ workspace_id, authority_id: authority.id }).execute()
  })
}
