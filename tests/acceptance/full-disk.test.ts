import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { assertCounts, startCounter } from '../support/counter.ts'
import { fillFileSystem, smallFileSystem, type SmallFileSystem } from '../support/file-systems.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'

/** Less than the image of the smallest guest. */
const ROOM_FOR_RECORDS_ONLY = 12 << 20

describe('a pool without room', () => {
  let service: Service
  let client: Client
  let workspace: OpenedWorkspace
  before(async () => {
    service = await startService({ settings: { slots: 1, shells: 1 } })
    client = createClient(service.base_url, service.api_key)
    workspace = await client.open('full-pool')
    await startCounter(client, workspace)
  })
  after(async () => {
    await service.stop()
  })

  test('a checkpoint that does not fit fails the suspend, and the guest runs on', async () => {
    const filled = await fillFileSystem(service.pool_path(), ROOM_FOR_RECORDS_ONLY)
    const refused = await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
    assert.deepEqual([refused.state, refused.error?.code], ['failed', 'checkpoint_failed'])
    const view = await client.api(`/v1/workspaces/${workspace.id}`)
    assert.deepEqual([view.body['observed_state'], view.body['desired_state']], ['running', 'running'])
    await assertCounts(client, { ...workspace, token: await client.token(workspace.id) })
    filled.free()
  })

  test('with room again the same suspend succeeds, and a delete worked all along', async () => {
    const suspended = await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
    assert.equal(suspended.state, 'succeeded')
    await assertCounts(client, await client.open('full-pool'))
  })
})

describe("a host's file system without room", () => {
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

  test('the guest runs on, whatever the suspend says, and all is well when there is room again', async () => {
    const workspace = await client.open('full-host')
    await startCounter(client, workspace)
    const filled = await fillFileSystem(disk.path)
    const asked = await client.api(`/v1/workspaces/${workspace.id}/suspend`, { method: 'POST' }).catch(() => null)
    if (asked?.status !== 202) await assertCounts(client, workspace)
    filled.free()
    await service.ready()
    await until('no operation is under way', 120_000, async () => {
      const view = await client.api(`/v1/workspaces/${workspace.id}`)
      return view.status === 200 && view.body['active_operation'] === null
    })
    await assertCounts(client, await client.open('full-host'))
  })
})
