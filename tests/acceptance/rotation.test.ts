import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { decodeProtectedHeader } from 'jose'
import { call, createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

const EMAIL = `ada-${randomUUID()}@example.com`
let service: SharedService
let client: Client
let workspace: OpenedWorkspace
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('rotation')
})
after(() => service.stop())

const served = async (token: string) => (await client.tool({ ...workspace, token }, '/files/stat?path=/home/user')).status
const kids = async () => {
  const { body } = await call<{ keys: { kid: string }[] }>(`${service.base_url}/v1/.well-known/tool-token-keys`)
  return body.keys.map(({ kid }) => kid)
}

test('after a rotation of the signing key, tokens of the old key stay valid and those of the new one are valid at once', async () => {
  const old = decodeProtectedHeader(workspace.token).kid
  assert.equal(await served(workspace.token), 200)
  assert.equal((await service.admin('keys', 'rotate')).trim(), old)
  let token = await client.token(workspace.id)
  await until('the api signs with the new key', 60_000, async () => {
    token = await client.token(workspace.id)
    return decodeProtectedHeader(token).kid !== old
  })
  assert.deepEqual([await served(token), await served(workspace.token)], [200, 200])
  assert.deepEqual((await kids()).slice(0, 2), [decodeProtectedHeader(token).kid, old])
})

test('a revocation of the tokens of a workspace refuses all earlier tokens and no later one', async () => {
  await service.admin('workspace', 'revoke-tokens', workspace.id)
  await until('the token is refused', 30_000, async () => (await served(workspace.token)) === 401)
  await until('a new token is served', 30_000, async () => (await served(await client.token(workspace.id))) === 200)
})

test('a session that admin created works until the person gets a role without tools', async () => {
  await service.admin('person', 'create', '--email', EMAIL, '--organization', service.organization, '--role', 'member')
  const session = (await service.admin('session', 'create', '--email', EMAIL, '--quiet')).trim()
  const theirs = createClient(service.base_url, session)
  const token = await theirs.token(workspace.id)
  assert.equal(await served(token), 200)
  await service.admin('person', 'create', '--email', EMAIL, '--organization', service.organization, '--role', 'billing')
  await until('the token is refused', 30_000, async () => (await served(token)) === 401)
  const { status } = await theirs.api(`/v1/workspaces/${workspace.id}/tool-tokens`, { json: {} })
  assert.equal(status, 403)
})
