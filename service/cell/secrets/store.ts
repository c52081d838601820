import type { SealedSecret } from '../../core/secrets/envelope.ts'
import { MEANT_BY_NAME, type MeantSecret } from '../../core/secrets/store.ts'
import type { Reader } from '../../db/reader.ts'

/** A name that a workspace is given, or asks for, and the secret that it means. */
export interface FoundSecret extends MeantSecret, SealedSecret {
  secret_id: string
  organization_id: string
  version: number
}

export interface Sought {
  id: string
  organization_id: string
  project_id: string
}

/** What a workspace's bindings mean, and these names beside them. A name that means nothing is absent. */
export function findSecrets(reads: Reader, workspace: Sought, names: readonly string[]): Promise<FoundSecret[]> {
  const { id, organization_id, project_id } = workspace
  return reads.rows<FoundSecret>(
    'cell.secrets',
    `select n.name, s.id as secret_id, s.organization_id, s.allowed_project_ids, s.allowed_workspace_ids, s.allowed_tools,
       v.version, v.key_id, v.wrapped_key, v.ciphertext
     from (select name from workspace_secrets where workspace_id = $3 union select unnest($4::text[])) n
     join ${MEANT_BY_NAME} on true
     join secret_versions v on v.secret_id = s.id and v.version = s.version and v.key_id is not null`,
    [organization_id, project_id, id, names],
  )
}
