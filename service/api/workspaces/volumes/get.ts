import type { volumesGet } from '../../../../contract/routes/app/volumes.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { findVolume } from './find.ts'
import { volumeView } from './view.ts'
import type { ReadDeps } from '../../calls/deps.ts'

export async function getVolume(call: Call<typeof volumesGet>, deps: ReadDeps): Promise<Reply> {
  return { status: 200, body: volumeView(call.who, await findVolume(deps, call)) }
}
