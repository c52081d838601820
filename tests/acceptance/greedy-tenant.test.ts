// Needs its own installation: the test fills its pool.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { assertCounts, startCounter } from '../support/counter.ts'
import { startService, type Service } from '../support/service.ts'

// A tenant that fills the pool must get an error; all tenants can suspend from the reserve.
const HELD_MIB = 320
const HOLDS = `python3 -c 'import os,time; held=os.urandom(${HELD_MIB}<<20); open("/dev/shm/ready","w").write("x"); time.sleep(1e6)'`
const small = { caps: { memory_mib: 768, disk_gib: 1 } }

let service: Service
let greedy: Client
let modest: Client
let hog: OpenedWorkspace

before(async () => {
  service = await startService({ settings: { slots: 0, shells: 0, pool_image_gib: 4, pool_reserve_gib: 2.5 } })
  greedy = createClient(service.base_url, service.api_key)
  await service.admin('organization', 'create', 'modest')
  await service.admin('project', 'create', 'modest', '--organization', 'modest')
  const key = await service.admin('key', 'create', '--organization', 'modest', '--project', 'modest', '--tools', 'exec,files', '--quiet')
  modest = createClient(service.base_url, key.trim())
})
after(async () => {
  await service.stop()
})

async function holding(client: Client, key: string): Promise<OpenedWorkspace> {
  const workspace = await client.open(key, small)
  await client.tool(workspace, '/exec', { json: { session_id: 'holds', argv: ['sh', '-c', HOLDS] } })
  await startCounter(client, workspace)
  const { exit } = await client.run(workspace, ['sh', '-c', 'until [ -s /dev/shm/ready ]; do sleep 0.05; done'])
  assert.equal(exit.exit_code, 0)
  return workspace
}

async function counts(client: Client, workspace: OpenedWorkspace): Promise<void> {
  await assertCounts(client, { ...workspace, token: await client.token(workspace.id) })
}

interface Ended {
  state: string
  error: { code: string; message: string; details?: { reason?: string } } | null
}

async function copyUntilRefused(copy: (number: number) => Promise<Ended>): Promise<Ended & { copies: number }> {
  for (let copies = 0; copies < LIMITS.workspace.snapshots_per_workspace_max; copies++) {
    const ended = await copy(copies)
    if (ended.state !== 'succeeded') return { ...ended, copies }
  }
  throw new Error('the pool never filled')
}

test('snapshots in a loop end with an error that names the disk, and the guest runs on', async () => {
  const neighbour = await holding(modest, 'neighbour')
  hog = await holding(greedy, 'hog')
  const refused = await copyUntilRefused(async () => await greedy.operate(`/v1/workspaces/${hog.id}/snapshot`))
  assert.deepEqual([refused.error?.code, refused.error?.details?.reason], ['checkpoint_failed', 'no_space'])
  assert.ok(refused.copies >= 2, `${refused.copies} snapshots`)
  await counts(greedy, hog)
  await counts(modest, neighbour)
})

test('forks in a loop end with the same error, and a failed fork keeps neither space nor its key', async () => {
  const refused = await copyUntilRefused(
    async (number) => await greedy.operate(`/v1/workspaces/${hog.id}/fork`, { json: { key: `copy-${number}` } }),
  )
  assert.deepEqual([refused.copies, refused.error?.code, refused.error?.details?.reason], [0, 'dependency_failed', 'no_space'])
  await counts(greedy, hog)
  const { files } = await service.inventory()
  assert.equal(files.filter(({ disks, checkpoints }) => disks.length + checkpoints.length > 0).length, 2)
})

test('a workspace of another organization suspends into the reserve and resumes complete', async () => {
  const { body } = await modest.api<{ data: { id: string }[] }>('/v1/workspaces')
  const id = body.data[0]?.id ?? ''
  const suspended = await modest.operate(`/v1/workspaces/${id}/suspend`)
  assert.deepEqual([suspended.state, suspended.error], ['succeeded', null])
  await counts(modest, await modest.open('neighbour', small))
})

test('deleting the snapshots frees space for other tenants', async () => {
  assert.equal((await greedy.operate(`/v1/workspaces/${hog.id}`, { method: 'DELETE' })).state, 'succeeded')
  const { id } = await modest.open('neighbour', small)
  assert.equal((await modest.operate(`/v1/workspaces/${id}/snapshot`)).state, 'succeeded')
})
