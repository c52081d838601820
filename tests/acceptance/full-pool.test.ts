// Needs its own installation: the test fills its pool.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { assertCounts, startCounter } from '../support/counter.ts'
import { fillFileSystem } from '../support/file-systems.ts'
import { type IdleOperation, idleOf, shortenTimeout, suspendsOf, withProcess } from '../support/idle.ts'
import { startService, type Service } from '../support/service.ts'

/** Too little for the smallest guest's memory image. */
const ROOM_FOR_RECORDS_ONLY = 12 << 20
const LOOK_MS = 5000

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

test('with free space the same suspend succeeds', async () => {
  const suspended = await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  assert.equal(suspended.state, 'succeeded')
  await assertCounts(client, await client.open('full-pool'))
})

test('an idle workspace that cannot be saved runs on with its processes, and its retries back off', async () => {
  const idle = await withProcess(client, 'unsaveable')
  const { id } = idle.workspace
  const filled = await fillFileSystem(service.pool_path(), ROOM_FOR_RECORDS_ONLY)
  await shortenTimeout(service, id)
  const retryNow = () => service.query('update workspaces set idle_retry_at = active_at where id = $1', [id])
  const waits = async (operation: IdleOperation) => {
    const said = await idleOf(client, { ...idle.workspace, token: await client.token(id) })
    assert.deepEqual([operation.state, operation.error?.code, said.awake, said.suspend_by], ['failed', 'checkpoint_failed', [], 'policy'])
    return [said.failed_suspends, Math.round((Date.parse(said.suspend_at) - Date.parse(operation.completed_at)) / 1000)]
  }
  assert.deepEqual(await waits(await suspendsOf(client, id, 1)), [1, 60])
  await new Promise((resolve) => setTimeout(resolve, 1.5 * LOOK_MS)) // the absence of a suspend has no event
  await suspendsOf(client, id, 1)
  await retryNow()
  assert.deepEqual(await waits(await suspendsOf(client, id, 2)), [2, 120])
  filled.free()
  await retryNow()
  assert.equal((await suspendsOf(client, id, 3)).state, 'succeeded')
  const again = await client.open('unsaveable')
  assert.equal(await idle.alive(again), idle.pid)
  assert.equal((await idleOf(client, again)).failed_suspends, 0)
})
