import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Client, createClient } from '../support/client.ts'
import { machinesOf, OWN_ADDRESS } from '../support/machines.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

let service: SharedService
let client: Client
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
})
after(() => service.stop())

test('a workspace keeps its address over suspend and resume, and a fork has another address', { timeout: patience(240_000) }, async () => {
  const workspace = await client.open('address')
  const run = async (at: typeof workspace, script: string) => {
    const { exit, stdout, stderr } = await client.run(at, ['bash', '-c', script])
    assert.equal(exit.exit_code, 0, stderr)
    return stdout.trim()
  }
  const own = await run(workspace, OWN_ADDRESS)
  await run(workspace, 'echo served > page')
  await client.tool(workspace, '/exec', { json: { session_id: 'serves', argv: ['python3', '-m', 'http.server', '--bind', own, '8000'] } })
  const page = `curl -sS --retry 20 --retry-connrefused --retry-delay 1 http://${own}:8000/page`
  assert.equal(await run(workspace, page), 'served')
  const slot = (await service.inventory()).machines.find(({ subject }) => subject.id === workspace.id)?.slot ?? ''
  assert.equal((await client.operate(`/v1/workspaces/${workspace.id}/suspend`)).state, 'succeeded')
  await machinesOf(service).untilNoNetwork(slot, 120_000)
  await client.operate(`/v1/workspaces/${workspace.id}/fork`, { json: { key: 'address-fork' } })
  const fork = await client.open('address-fork')
  assert.notEqual(await run(fork, OWN_ADDRESS), own)
  assert.equal((await client.operate(`/v1/workspaces/${workspace.id}/resume`)).state, 'succeeded')
  workspace.token = await client.token(workspace.id)
  assert.equal(await run(workspace, OWN_ADDRESS), own)
  assert.equal(await run(workspace, page), 'served')
  for (const { id } of [workspace, fork]) await client.operate(`/v1/workspaces/${id}`, { method: 'DELETE' })
})
