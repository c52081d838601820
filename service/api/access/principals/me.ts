import type { me } from '../../../../contract/routes/app/principals.ts'
import type { Principal as PrincipalView } from '../../../../contract/schemas/principals.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { listMemberships, readPerson } from './store.ts'
import type { ReadDeps } from '../../calls/deps.ts'

export async function getMe({ who }: Call<typeof me>, { reads }: ReadDeps): Promise<Reply> {
  if (who.type === 'user') {
    const [user, memberships] = await Promise.all([readPerson(reads, who.id), listMemberships(reads, who.id)])
    const body: PrincipalView = { type: 'user', user, memberships, api_key: null }
    return { status: 200, body }
  }
  const { type, ...api_key } = who
  const body: PrincipalView = { type, user: null, memberships: [], api_key }
  return { status: 200, body }
}
