import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient, type Client } from '../support/client.ts'
import { type IdleOperation, idleOf, shortenTimeout, SHORTEST_TIMEOUT_SECONDS, suspendsOf, withProcess } from '../support/idle.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

const LOOK_SECONDS = 5

let service: SharedService
let client: Client
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
})
after(() => service.stop())

test('a learned timeout after its last command suspends a workspace, and a detached process does not keep it awake', async () => {
  const { workspace, pid, alive } = await withProcess(client, 'learned')
  await shortenTimeout(service, workspace.id)
  await client.tool(workspace, '/exec', { json: { argv: ['sleep', '8'], session_id: 'long' } })
  const idle = await idleOf(client, workspace)
  const { body: session } = await client.tool<{ started_at: string }>(workspace, '/exec/long')
  const [command, ...others] = idle.awake.filter(({ kind }) => kind !== 'call') // the start itself may not be over yet
  assert.deepEqual([idle.basis, idle.timeout_seconds, idle.idle_since, others], ['learned', SHORTEST_TIMEOUT_SECONDS, null, []])
  assert.deepEqual([command?.['kind'], command?.['session_id'], command?.['since']], ['command', 'long', session.started_at])
  const operation = await suspendsOf(client, workspace.id, 1)
  assert.deepEqual([operation.state, operation.input], ['succeeded', { reason: 'idle_timeout' }])
  const again = await client.open('learned')
  const { body: ended } = await client.tool<{ ended_at: string }>(again, '/exec/long')
  const waited_seconds = (Date.parse(operation.created_at) - Date.parse(ended.ended_at)) / 1000
  assert.ok(
    waited_seconds >= SHORTEST_TIMEOUT_SECONDS && waited_seconds < SHORTEST_TIMEOUT_SECONDS + 6 * LOOK_SECONDS,
    `${waited_seconds} s`,
  )
  assert.equal(await alive(again), pid)
})

test('a used-up allowance suspends running workspaces and refuses starts until it ends, and nothing is lost', async () => {
  const workspace = await client.open('allowance')
  await client.run(workspace, ['sh', '-c', 'echo kept > /dev/shm/memory'])
  await service.admin('organization', 'allowance', service.organization, 'allowance_used', '--used', 'cpu_hours=36000/36000')
  const operation: IdleOperation = await suspendsOf(client, workspace.id, 1)
  assert.deepEqual([operation.state, operation.input], ['succeeded', { reason: 'allowance_exhausted' }])
  const { status, body } = await client.api<{ error: { code: string; details: Record<string, unknown> } }>('/v1/workspaces/open', {
    json: { key: 'allowance', template: 'base' },
  })
  const { code, details } = body.error
  assert.deepEqual([status, code, details['reason'], details['used']], [402, 'allowance_exhausted', 'allowance_used', 10])
  await service.admin('organization', 'allowance', service.organization, 'none')
  assert.equal((await client.run(await client.open('allowance'), ['cat', '/dev/shm/memory'])).stdout, 'kept\n')
})
