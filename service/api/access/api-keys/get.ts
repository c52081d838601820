import type { apiKeysGet, apiKeysList } from '../../../../contract/routes/app/members.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { notFound } from '../../calls/scope.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { listKeys, readKey } from './store.ts'
import { keyView } from './view.ts'
import type { PageDeps, ReadDeps } from '../../calls/deps.ts'

export async function listApiKeysOfProject(call: Call<typeof apiKeysList>, deps: PageDeps): Promise<Reply> {
  const page = pageOf(deps.cursor_keys, call)
  const rows = await listKeys(deps.reads, call.params.project_id, call.query.include_revoked ?? false, page)
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, keyView) }
}

export async function getApiKey(call: Call<typeof apiKeysGet>, deps: ReadDeps): Promise<Reply> {
  const row = await readKey(deps.reads, call.params.project_id, call.params.api_key_id)
  if (row === null) throw notFound('API key')
  return { status: 200, body: keyView(row) }
}
