import { after, before } from 'node:test'
import { Berth } from '../../sdk/typescript/src/main.ts'
import { methodsSuite } from '../sdk/methods.ts'
import { createClient } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

const PASSWORD = 'a long enough password'

let service: SharedService
let berth: Berth
let person: Berth
before(async () => {
  service = await sharedService()
  berth = new Berth({ url: service.base_url, apiKey: service.api_key })
  person = new Berth({ url: service.base_url, apiKey: await ownerOf(service) })
})
after(() => service.stop())

methodsSuite('real machines', () => ({ berth, person }))

/** @returns the session of a person who owns the organization */
async function ownerOf({ base_url, organization, admin }: SharedService): Promise<string> {
  const email = `${organization}@example.com`
  await admin('person', 'create', '--email', email, '--organization', organization, '--role', 'owner', '--name', 'Owner')
  const token = /#token=(\S+)/.exec(await admin('person', 'link', '--email', email))?.[1]
  const { api } = createClient(base_url, 'none')
  await api('/v1/auth/password/reset/confirm', { json: { token, new_password: PASSWORD } })
  return (await api<{ session_token: string }>('/v1/auth/login', { json: { email, password: PASSWORD } })).body.session_token
}
