import { LIMITS } from '../../../../contract/limits.ts'
import type { apiKeysCreate } from '../../../../contract/routes/app/members.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { insertApiKey } from '../../../core/keys/store.ts'
import { newApiKey } from '../../../core/keys/new-credentials.ts'
import { lockProject } from '../../../core/people/organizations/store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { takeOfDay } from '../../calls/daily/take.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { projectOf } from '../projects/project-of.ts'
import { countKeys } from './store.ts'
import { keySubject, keyView } from './view.ts'
import type { ChangeDeps, ReadDeps } from '../../calls/deps.ts'

const { keys_per_project_max } = LIMITS.organization

export async function createApiKey(call: Call<typeof apiKeysCreate>, deps: ChangeDeps & ReadDeps): Promise<Reply> {
  const { organization_id, project_id } = await projectOf(deps.reads, call.who, call.params.project_id)
  const { name = '', tool_permissions } = call.body
  const { key_id, api_key, secret_sha256 } = newApiKey()
  const times = { created_at: call.now, expires_at: endOf(call.body.expires_at ?? null, call.now), revoked_at: null }
  const key = { id: deps.ids.next(), key_id, organization_id, project_id, name, tool_permissions, ...times }
  const work = async (tx: ChangeTx) => {
    await lockProject(tx, project_id) // concurrent calls wait here, so they cannot exceed the limit
    const current = await countKeys(tx, project_id)
    if (current >= keys_per_project_max) {
      const details = { limit: 'api_keys', limit_value: keys_per_project_max, current }
      throw fail('quota_exceeded', null, 'The project has as many keys as it may: revoke one first', { details })
    }
    await insertApiKey(tx, { ...key, secret_sha256, tools_changed_at: null })
    await takeOfDay(tx, 'api_keys', organization_id, call.now)
  }
  await changing(deps, call, work, () => keySubject(key, { tool_permissions }))
  return { status: 201, body: { ...keyView({ ...key, last_used_at: null }), api_key } }
}

export function endOf(text: string | null, now: Date): Date | null {
  if (text === null) return null
  const end = new Date(text)
  if (end > now) return end
  const issues = [{ path: 'expires_at', message: 'must be a moment that is still to come' }]
  throw fail('validation_failed', null, 'The request is not valid', { details: { issues } })
}
