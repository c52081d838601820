import type { toolTokenKeys } from '../../../../contract/routes/app/tool-tokens.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { listKeys } from './store.ts'
import type { ReadDeps } from '../../calls/deps.ts'

export async function getToolTokenKeys(call: Call<typeof toolTokenKeys>, deps: ReadDeps): Promise<Reply> {
  return { status: 200, body: { keys: await listKeys(deps.reads, call.now) }, headers: { 'cache-control': 'public, max-age=60' } }
}
