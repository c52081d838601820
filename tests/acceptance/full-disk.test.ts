// Needs its own installation: the test fills its file system.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient, type Client } from '../support/client.ts'
import { assertCounts, startCounter } from '../support/counter.ts'
import { fillFileSystem, smallFileSystem, type SmallFileSystem } from '../support/file-systems.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'

let disk: SmallFileSystem
let service: Service
let client: Client
before(async () => {
  disk = smallFileSystem(12)
  service = await startService({ data_dir: `${disk.path}/data`, settings: { slots: 1, shells: 1, pool_image_gib: 5 } })
  client = createClient(service.base_url, service.api_key)
})
after(async () => {
  try {
    await service.stop()
  } finally {
    disk.close() // also when the service never started
  }
})

test('on a full host file system the guest runs on even if the suspend fails, and all works once space is free', async (t) => {
  const workspace = await client.open('full-host')
  await startCounter(client, workspace)
  const filled = await fillFileSystem(disk.path)
  const asked = await client.api<{ id: string }>(`/v1/workspaces/${workspace.id}/suspend`, { method: 'POST' }).catch(() => null)
  const accepted = asked?.status === 202 ? asked.body.id : null
  if (accepted === null) await assertCounts(client, workspace)
  filled.free()
  await service.ready()
  const view = async () => (await client.api(`/v1/workspaces/${workspace.id}`)).body
  await until('no operation is under way', 120_000, async () => (await view())['active_operation'] === null)
  const state = accepted === null ? 'refused' : (await client.api<{ state: string }>(`/v1/operations/${accepted}`)).body.state
  t.diagnostic(`the suspend: ${state}`)
  assert.deepEqual(
    [['refused', 'failed', 'succeeded'].includes(state), (await view())['observed_state']],
    [true, state === 'succeeded' ? 'suspended' : 'running'],
  )
  await assertCounts(client, await client.open('full-host'))
})
