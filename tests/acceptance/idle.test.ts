import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { startService, type Service } from '../support/service.ts'

interface Operation {
  id: string
  kind: string
  state: string
  created_at: string
  input: Record<string, unknown>
}
interface SuspendRequest {
  requested_at: string
  after_seconds: number
  not_before: string
}

const AFTER_SECONDS = 30
const UNTIL_MS = 180_000

let service: Service
let client: Client
before(async () => {
  service = await startService()
  client = createClient(service.base_url, service.api_key)
})
after(() => service.stop())

const request = async (id: string) => {
  const { body } = await client.api<{ suspend_request: SuspendRequest }>(`/v1/workspaces/${id}/suspend-when-idle`, {
    json: { after_seconds: AFTER_SECONDS },
  })
  return body.suspend_request
}
const suspends = async (id: string) => (await client.api<{ data: Operation[] }>(`/v1/workspaces/${id}/operations?kind=suspend`)).body.data

/** The first suspend of a workspace, when it is over: begun by the service itself, whose clock looks every five seconds. */
async function suspended(id: string): Promise<Operation> {
  for (const end_ms = performance.now() + UNTIL_MS; ;) {
    const [found] = await suspends(id)
    if (found?.state === 'succeeded') return found
    if (performance.now() > end_ms) throw new Error(`workspace ${id} was not suspended: ${JSON.stringify(found)}`)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

const remembered = async (workspace: OpenedWorkspace) => (await client.run(workspace, ['cat', '/dev/shm/memory'])).stdout

test('a suspend request fires on a real machine, not before its time; a tool call cancels another, a running command puts it off', async () => {
  const [fires, called, busy] = await Promise.all(['fires', 'called', 'busy'].map((key) => client.open(key, { idle_policy: 'never' })))
  assert.ok(fires && called && busy)
  await client.run(fires, ['sh', '-c', 'echo kept > /dev/shm/memory'])
  await client.tool(busy, '/exec', { json: { argv: ['sleep', '300'], session_id: 'long' } })
  const [asked] = await Promise.all([fires, called, busy].map(({ id }) => request(id)))
  assert.ok(asked)
  await client.run(called, ['true'])
  const operation = await suspended(fires.id)
  assert.deepEqual(operation.input, { reason: 'requested_after_idle', requested_at: asked.requested_at, after_seconds: AFTER_SECONDS })
  assert.ok(operation.created_at >= asked.not_before, operation.created_at)
  assert.deepEqual([await suspends(called.id), await suspends(busy.id)], [[], []])
  assert.equal(await remembered(await client.open('fires')), 'kept\n')
})

test('a used-up allowance suspends what runs, refuses starts, and gives everything back when it is over', async () => {
  const workspace = await client.open('allowance')
  await client.run(workspace, ['sh', '-c', 'echo kept > /dev/shm/memory'])
  await service.admin('organization', 'allowance', 'default', 'allowance_used', '--used', 'cpu_hours=36000/36000')
  assert.deepEqual((await suspended(workspace.id)).input, { reason: 'allowance_exhausted' })
  const { status, body } = await client.api<{ error: { code: string; details: Record<string, unknown> } }>('/v1/workspaces/open', {
    json: { key: 'allowance', template: 'base' },
  })
  const { code, details } = body.error
  assert.deepEqual([status, code, details['reason'], details['used']], [402, 'allowance_exhausted', 'allowance_used', 10])
  await service.admin('organization', 'allowance', 'default', 'none')
  assert.equal(await remembered(await client.open('allowance')), 'kept\n')
})
