import type { NormalSecretHost } from '../../contract/schemas/secrets.ts'
import { sealSecret } from '../../service/core/secrets/envelope.ts'
import { sealerFor, type SealingKey } from '../../service/core/keys/ring/sealed-values.ts'
import type { Db } from '../../service/db/database.ts'
import { createIds } from '../../service/lib/ids.ts'
import { systemClock } from '../../service/lib/clock.ts'

const ids = createIds(systemClock)

export interface SeededSecret {
  organization_id: string
  /** null: a secret of the organization. */
  project_id: string | null
  name: string
  value: string
  allowed_tools?: string[]
  allowed_workspace_ids?: string[]
  hosts?: NormalSecretHost[]
  version?: number
}

export async function seedSecret(db: Db, key: SealingKey, given: SeededSecret): Promise<string> {
  const { organization_id, project_id, name, value, allowed_tools = ['exec', 'pty'], allowed_workspace_ids = null, version = 1 } = given
  const [id, created_at] = [ids.next(), new Date()]
  const hosts = given.hosts === undefined ? null : JSON.stringify(given.hosts)
  const terms = { allowed_project_ids: null, allowed_workspace_ids, allowed_tools }
  const times = { created_at, updated_at: created_at, deleted_at: null }
  await db
    .insertInto('secrets')
    .values({ id, organization_id, project_id, name, description: null, ...terms, hosts, version, ...times })
    .execute()
  await seedVersion(db, key, { organization_id, secret_id: id, version }, value)
  return id
}

export async function seedVersion(
  db: Db,
  key: SealingKey,
  of: { organization_id: string; secret_id: string; version: number },
  value: string,
): Promise<void> {
  const sealed = await sealSecret(await sealerFor(key.public_jwk), of, value)
  const { secret_id, version } = of
  await db
    .insertInto('secret_versions')
    .values({ id: ids.next(), secret_id, version, created_at: new Date(), erased_at: null, ...sealed })
    .execute()
}
