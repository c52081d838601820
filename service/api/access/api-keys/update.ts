import type { apiKeysDelete, apiKeysUpdate } from '../../../../contract/routes/app/members.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { notFound } from '../../calls/scope.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { endOf } from './create.ts'
import { lockKey, readKey, writeKey, type KeyChange } from './store.ts'
import { keySubject, keyView } from './view.ts'
import type { ChangeDeps, ReadDeps } from '../../calls/deps.ts'

export async function updateApiKey(call: Call<typeof apiKeysUpdate>, deps: ChangeDeps & ReadDeps): Promise<Reply> {
  const { project_id, api_key_id } = call.params
  const { name, tool_permissions, expires_at } = call.body
  const change: KeyChange = {
    ...(name === undefined ? {} : { name }),
    ...(tool_permissions === undefined ? {} : { tool_permissions }),
    ...(expires_at === undefined ? {} : { expires_at: endOf(expires_at, call.now) }),
  }
  const work = async (tx: ChangeTx) => {
    const key = await lockKey(tx, project_id, api_key_id)
    if (key === undefined) throw notFound('API key')
    if (key.revoked_at !== null) throw fail('conflict', null, 'The key is revoked')
    // Only lost permissions invalidate the key's tool tokens.
    const narrowed = tool_permissions !== undefined && key.tool_permissions.some((tool) => !tool_permissions.some((kept) => kept === tool))
    if (Object.keys(change).length === 0) return null
    await writeKey(tx, api_key_id, { ...change, ...(narrowed ? { tools_changed_at: call.now } : {}) })
    return key
  }
  await changing(deps, call, work, (key) => key && keySubject(key, { changed: Object.keys(change) }))
  const row = await readKey(deps.reads, project_id, api_key_id)
  if (row === null) throw notFound('API key')
  return { status: 200, body: keyView(row) }
}

export async function revokeApiKey(call: Call<typeof apiKeysDelete>, deps: ChangeDeps): Promise<Reply> {
  const { project_id, api_key_id } = call.params
  const work = async (tx: ChangeTx) => {
    const key = await lockKey(tx, project_id, api_key_id)
    if (key === undefined) throw notFound('API key')
    if (key.revoked_at !== null) return null
    await writeKey(tx, api_key_id, { revoked_at: call.now })
    return key
  }
  await changing(deps, call, work, (key) => key && keySubject(key))
  return { status: 204 }
}
