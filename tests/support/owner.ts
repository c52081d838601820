import { createClient } from './client.ts'
import type { SharedService } from './shared-services.ts'

const PASSWORD = 'a long enough password'

export async function ownerOf({ base_url, organization, admin }: SharedService): Promise<string> {
  const email = `${organization}@example.com`
  await admin('person', 'create', '--email', email, '--organization', organization, '--role', 'owner', '--name', 'Owner')
  const token = /#token=(\S+)/.exec(await admin('person', 'link', '--email', email))?.[1]
  const { api } = createClient(base_url, 'none')
  await api('/v1/auth/password/reset/confirm', { json: { token, new_password: PASSWORD } })
  return (await api<{ session_token: string }>('/v1/auth/login', { json: { email, password: PASSWORD } })).body.session_token
}
