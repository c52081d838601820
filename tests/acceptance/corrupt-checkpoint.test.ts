import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

let service: SharedService
let client: Client
let workspace: OpenedWorkspace
let directory: string

before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('corrupt')
  await client.tool(workspace, '/exec', { json: { session_id: 'sleeper', argv: ['sleep', '1000'] } })
  const { result } = await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  directory = `checkpoints/${String(result?.['checkpoint_id'])}`
})
after(async () => {
  await service.stop()
})

for (const part of ['checkpoint.img', 'pages_meta.img', 'pages.img', 'manifest.json']) {
  test(`one flipped bit in ${part} fails the resume and leaves the workspace suspended`, async () => {
    const file = service.pool_file(workspace.id, `${directory}/**/${part}`)
    const bytes = await file.read()
    const flipped = Buffer.from(bytes)
    const at = Math.floor(flipped.length / 2)
    flipped[at] = (flipped[at] ?? 0) ^ 1
    await file.write(flipped)
    const resumed = await client.operate(`/v1/workspaces/${workspace.id}/resume`)
    assert.deepEqual([resumed.state, resumed.error?.code], ['failed', 'checkpoint_corrupt'])
    const view = await client.api(`/v1/workspaces/${workspace.id}`)
    assert.equal(view.body['observed_state'], 'suspended')
    await file.write(bytes)
  })
}

test('the repaired checkpoint resumes with its process', async () => {
  const reopened = await client.open('corrupt')
  const { body } = await client.tool<{ state: string }>(reopened, '/exec/sleeper')
  assert.equal(body.state, 'running')
})
