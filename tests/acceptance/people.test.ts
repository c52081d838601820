// From the first person to a colleague's command, against a real mail server. An installation of its own: where its mail goes is a setting.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient } from '../support/client.ts'
import { openMailbox, type Mailbox } from '../support/mailbox.ts'
import { startService, type Service } from '../support/service.ts'

const PASSWORD = 'a long enough password'

let box: Mailbox
let service: Service
before(async () => {
  box = await openMailbox()
  service = await startService({ settings: { smtp_url: box.url, mail_from: 'Berth <berth@mail.test>' } })
})
after(async () => {
  await service.stop()
  await box[Symbol.asyncDispose]()
})

async function post<Body>(path: string, json: object, session = 'none'): Promise<Body> {
  const { status, body } = await createClient(service.base_url, session).api<Body>(path, { json })
  assert.ok(status < 300, `${path}: ${status} ${JSON.stringify(body)}`)
  return body
}

test('the first owner invites a colleague, who registers, makes a key of their own and runs a command with it', async () => {
  const ada = 'ada@example.com'
  await service.admin('person', 'create', '--email', ada, '--organization', 'default', '--role', 'owner', '--name', 'Ada')
  const link = await service.admin('person', 'link', '--email', ada)
  const token = /#token=(\S+)/.exec(link)?.[1]
  assert.ok(link.includes(service.base_url))
  await post('/v1/auth/password/reset/confirm', { token, new_password: PASSWORD })
  const owner = await post<{ session_token: string }>('/v1/auth/login', { email: ada, password: PASSWORD })
  const me = await createClient(service.base_url, owner.session_token).api<{ memberships: { organization_id: string }[] }>('/v1/me')
  const organization = `/v1/organizations/${me.body.memberships[0]?.organization_id}`

  const charles = 'charles@example.com'
  const project = await post<{ id: string }>(`${organization}/projects`, { name: 'Numbers' }, owner.session_token)
  await post(`${organization}/invitations`, { email: charles, role: 'admin' }, owner.session_token)
  const invitation_token = await box.tokenTo(charles, /invited/)
  await post('/v1/auth/register', { email: charles, password: PASSWORD, display_name: 'Charles', invitation_token })
  const { session_token } = await post<{ session_token: string }>('/v1/auth/login', { email: charles, password: PASSWORD })
  await post('/v1/invitations/accept', { token: invitation_token }, session_token)

  const key = await post<{ api_key: string }>(`/v1/projects/${project.id}/api-keys`, { tool_permissions: ['exec'] }, session_token)
  const client = createClient(service.base_url, key.api_key)
  const workspace = await client.open('of-charles')
  assert.equal((await client.run(workspace, ['sh', '-c', 'echo $((6 * 7))'])).stdout.trim(), '42')
})
