import type { secretsGet } from '../../../../contract/routes/app/secrets.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { findSecret } from './find.ts'
import { secretView } from './view.ts'
import type { ReadDeps } from '../../calls/deps.ts'

export async function getSecret(call: Call<typeof secretsGet>, deps: ReadDeps): Promise<Reply> {
  return { status: 200, body: secretView(await findSecret(deps, call)) }
}
