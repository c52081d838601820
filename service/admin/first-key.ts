import { open, readFile, rename, rm } from 'node:fs/promises'
import { TOOLS } from '../../contract/route.ts'
import { serviceOrigin } from '../core/changes/audit.ts'
import { type ChangeTx, mutate } from '../core/changes/mutate.ts'
import { anyApiKey, insertApiKey } from '../core/keys/store.ts'
import { findOrganization, findProject, insertOrganization, insertProject } from '../core/people/organizations/store.ts'
import { findPlan, insertPlan } from '../core/money/plans/store.ts'
import type { Db } from '../db/database.ts'
import type { Clock } from '../lib/clock.ts'
import type { Ids } from '../lib/ids.ts'
import { subjectOf } from './command.ts'
import { apiKeyOf, type NewApiKey, newApiKey } from '../core/keys/new-credentials.ts'

interface At {
  clock: Clock
  ids: Ids
}

/** @returns the key's text if this call has made the key. */
export async function firstKey(db: Db, file: string, at: At): Promise<string | null> {
  if (await anyApiKey(db)) return null
  // An interrupted start left its key in the file. Using that key loses no active key.
  const key = await readKey(file).catch(() => writeKey(file))
  const by = serviceOrigin('setup', { ids: at.ids, now: at.clock.now() })
  const { key_id, secret_sha256 } = key
  const id = at.ids.next()
  await mutate(
    db,
    by,
    'api-keys.create',
    async (tx) => {
      const organization_id = await ensureOrganization(tx, at)
      const owner = { organization_id, project_id: await ensureProject(tx, organization_id, at) }
      const times = { created_at: by.now, expires_at: null, revoked_at: null, tools_changed_at: null }
      await insertApiKey(tx, { id, key_id, secret_sha256, ...owner, name: 'first', tool_permissions: [...TOOLS], ...times })
      return owner
    },
    (owner) => subjectOf('api_key', id, owner, { key_id, tool_permissions: TOOLS }),
  )
  return key.api_key
}

export async function ensureUnlimitedPlan(tx: ChangeTx, at: At): Promise<string> {
  const found = await findPlan(tx, 'unlimited')
  if (found !== undefined) return found.id
  const id = at.ids.next()
  const unlimited = { concurrent_workspaces: null, cpu_millis: null, memory_mib: null, disk_gib: null, refuses_starts: null }
  await insertPlan(tx, { id, slug: 'unlimited', name: 'Unlimited', ...unlimited, created_at: at.clock.now() })
  return id
}

async function ensureOrganization(tx: ChangeTx, at: At): Promise<string> {
  const found = await findOrganization(tx, 'default')
  if (found !== undefined) return found.id
  const id = at.ids.next()
  const plan_id = await ensureUnlimitedPlan(tx, at)
  await insertOrganization(tx, { id, name: 'Default', slug: 'default', plan_id, allowance_exhausted: null, created_at: at.clock.now() })
  return id
}

async function ensureProject(tx: ChangeTx, organization_id: string, at: At): Promise<string> {
  const found = await findProject(tx, organization_id, 'default')
  if (found !== undefined) return found.id
  const id = at.ids.next()
  await insertProject(tx, { id, organization_id, name: 'Default', slug: 'default', created_at: at.clock.now() })
  return id
}

export async function readKey(file: string): Promise<NewApiKey> {
  return apiKeyOf((await readFile(file, 'utf8')).trim())
}

async function writeKey(file: string): Promise<NewApiKey> {
  const key = newApiKey()
  await rm(`${file}.new`, { force: true })
  const handle = await open(`${file}.new`, 'wx', 0o600)
  try {
    await handle.writeFile(`${key.api_key}\n`)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(`${file}.new`, file)
  return key
}
