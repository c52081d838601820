import { mayBeBound } from '../../../core/secrets/rules.ts'
import { placeholderOf } from '../../../core/secrets/authority.ts'
import type { Opener } from '../../../core/keys/ring/sealed-values.ts'
import type { Db } from '../../../db/database.ts'
import { readerOf } from '../../../db/reader.ts'
import type { ProxyAnswer } from '../../host/secret-proxy.ts'
import type { Authorities } from './authorities.ts'
import { openFound } from './resolve.ts'
import { findSecrets, workspaceOfEpoch } from './store.ts'

interface PutInDeps {
  cell_id: string
  db: Db
  opener: Opener
  authorities: Authorities
}

/**
 * The values are not stored in this process.
 * @returns null if there is no machine of this epoch
 */
export async function secretsToInject(deps: PutInDeps, workspace_id: string, epoch: number): Promise<ProxyAnswer | null> {
  const reads = readerOf(deps.db)
  const workspace = await workspaceOfEpoch(reads, deps.cell_id, workspace_id, epoch)
  if (workspace === null) return null
  const user = { project_id: workspace.project_id, workspace_id }
  const found = (await findSecrets(reads, workspace, [])).filter((secret) => secret.hosts !== null && mayBeBound(secret, user))
  const { id, certificate, private_key } = await deps.authorities.of(workspace_id)
  return {
    authority: { id, certificate, private_key: private_key.toString('base64') },
    secrets: await Promise.all(
      found.map(async (secret) => ({
        name: secret.name,
        placeholder: placeholderOf(private_key, secret.secret_id),
        value: await openFound(deps.opener, secret),
        hosts: secret.hosts ?? [],
      })),
    ),
  }
}
