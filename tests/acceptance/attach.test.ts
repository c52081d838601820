import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { attach, type Attached } from '../support/attached.ts'
import { type Client, createClient, type OpenedWorkspace } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

let service: SharedService
let client: Client
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
})
after(() => service.stop())

const attached = (workspace: OpenedWorkspace, id: string, query = '', token = workspace.token) =>
  attach(`${workspace.endpoint}/v1/workspaces/${workspace.id}/exec/${id}/attach${query}`, { token })
async function sleeping(key: string): Promise<{ workspace: OpenedWorkspace; stream: Attached }> {
  const workspace = await client.open(key)
  await client.tool(workspace, '/exec', { json: { session_id: 's', argv: ['sh', '-c', 'echo ready; exec sleep 1000'] } })
  const stream = await attached(workspace, 's')
  await stream.until(/ready/)
  return { workspace, stream }
}
async function ended(stream: Attached): Promise<unknown[]> {
  const events = await stream.rest()
  const { code } = await stream.closed
  return [code, events.at(-1)?.type, events.at(-1)?.error?.code]
}

test('a suspend closes attached streams with 4409 stale_epoch, a delete with 4410', { timeout: patience(180_000) }, async () => {
  const { workspace, stream } = await sleeping('ends')
  await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  assert.deepEqual(await ended(stream), [4409, 'error', 'stale_epoch'])
  assert.deepEqual(await ended(await attached(workspace, 's')), [4409, 'error', 'stale_epoch'])
  await client.operate(`/v1/workspaces/${workspace.id}/resume`)
  const again = await attached(workspace, 's', '', await client.token(workspace.id))
  await again.until(/ready/)
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
  assert.deepEqual(await ended(again), [4410, 'error', 'not_found'])
})

test('a killed engine closes attached streams with 4409 workspace_not_running', { timeout: patience(180_000) }, async () => {
  const { workspace, stream } = await sleeping('killed')
  await service.kill_machine(workspace.id)
  assert.deepEqual(await ended(stream), [4409, 'error', 'workspace_not_running'])
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
})

test('a token of one workspace does not attach to another workspace', { timeout: patience(180_000) }, async () => {
  const { workspace, stream } = await sleeping('victim')
  const other = await client.open('attacker')
  assert.deepEqual(await ended(await attached(workspace, 's', '', other.token)), [4403, 'error', 'forbidden'])
  stream.socket.close()
  await client.operate(`/v1/workspaces/${other.id}`, { method: 'DELETE' })
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
})

test('no log contains a token or a key, wherever a caller puts it', { timeout: patience(180_000) }, async () => {
  const workspace = await client.open('logged')
  await client.tool(workspace, '/exec', { json: { session_id: 's', argv: ['sh', '-c', 'echo ready; exec sleep 1000'] } })
  const at = `${workspace.endpoint}/v1/workspaces/${workspace.id}/exec/s/attach`
  const protocols = ['berth.v1', `bearer.${workspace.token}`]
  const stream = await attach(at, { protocols })
  await stream.until(/ready/)
  stream.socket.close()
  await assert.rejects((await attach(`${at}?token=${workspace.token}`, { protocols })).until(/ready/), /is not a known parameter/)
  const secret = service.api_key.split('_')[2] ?? ''
  const misplaced = [`/v1/workspaces/${service.api_key}`, `/v1/me?api_key=${service.api_key}`, `/v1/nowhere?key=${service.api_key}`]
  for (const url of misplaced)
    await fetch(`${service.base_url}${url}`, { headers: { authorization: `Bearer sfk_wrong_${secret}`, cookie: secret } })
  const signature = workspace.token.split('.')[2] ?? ''
  const logs = path.join(service.data_dir, 'logs')
  for (const name of readdirSync(logs)) {
    const text = readFileSync(path.join(logs, name), 'utf8')
    for (const hidden of [signature, secret]) assert.ok(!text.includes(hidden.slice(0, 24)), name)
  }
})
