// Needs its own installation: its files of several GiB would fill the shared pool.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient, refusalOf, type Client, type OpenedWorkspace } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'

let service: Service
let client: Client
before(async () => {
  service = await startService({ settings: { slots: 1, shells: 1, pool_image_gib: 8 } })
  client = createClient(service.base_url, service.api_key)
})
after(async () => {
  await service.stop()
})

interface Ended {
  state: string
  error: { code: string; details?: { reason?: string } } | null
  result: Record<string, unknown> | null
}
interface Checkpoint {
  id: string
  kind: string
  disk_bytes: number | null
}

const ROOM_MS = 120_000
const MIB = 2 ** 20
const open = (key: string) => client.open(key, { caps: { disk_gib: 1, memory_mib: 512 } })
const view = async (id: string) => (await client.api<{ observed_state: string; ownership_epoch: number }>(`/v1/workspaces/${id}`)).body
const checkpoints = async (id: string) => (await client.api<{ data: Checkpoint[] }>(`/v1/workspaces/${id}/checkpoints`)).body.data
const operate = async (id: string, verb: string, json: object = {}) =>
  (await client.operate(`/v1/workspaces/${id}/${verb}`, { json })) as Ended

async function done(id: string, verb: string, json: object = {}): Promise<Record<string, unknown>> {
  const { state, error, result } = await operate(id, verb, json)
  assert.deepEqual([state, error], ['succeeded', null], verb)
  return result ?? {}
}

async function shell(workspace: OpenedWorkspace, script: string): Promise<string> {
  const { stdout } = await client.run({ ...workspace, token: await client.token(workspace.id) }, ['bash', '-c', script])
  return stdout.trim()
}

/** Fills the disk, and then with small files: a write reserves more than it uses, so a refused one may fit later. */
const fill = (workspace: OpenedWorkspace) =>
  shell(
    workspace,
    'for n in 1 2 3; do cat /dev/zero >>big 2>/dev/null; sync; done; for n in {1..200}; do head -c 4000 /dev/zero >small$n 2>/dev/null || break; done; sync',
  )
const fits = async (workspace: OpenedWorkspace, name: string, mib: number) =>
  (await shell(workspace, `head -c ${mib}M /dev/zero >${name} 2>/dev/null && sync ${name} && echo fits || rm -f ${name}`)) === 'fits'
const soonFits = (workspace: OpenedWorkspace, name: string, mib: number) =>
  until(`${mib} MiB fit`, ROOM_MS, () => fits(workspace, name, mib))

/** `size` and `free` are MiB. */
const df = async (workspace: OpenedWorkspace) => {
  const [size = 0, free = 0] = (await shell(workspace, 'df -BM --output=size,avail . | tail -n 1')).split(/M\s*/).map(Number)
  return { size, free }
}

test('a full workspace suspends and resumes, and a deletion frees space although its checkpoint keeps the file', async () => {
  const workspace = await open('cycle')
  await fill(workspace)
  const put = await client.tool(workspace, '/files?path=/home/user/more', { method: 'PUT', bytes: Buffer.alloc(1 << 20) })
  assert.deepEqual(refusalOf(put), [429, 'rate_limited', 'disk_full'])
  await done(workspace.id, 'suspend')
  await done(workspace.id, 'resume')
  assert.equal(await fits(workspace, 'more', 8), false)
  const full = await df(workspace)
  assert.ok(full.size === 1024 && full.free <= 2, JSON.stringify(full)) // no space even for small files
  assert.equal(await shell(workspace, 'rm big && echo deleted'), 'deleted')
  await until('df shows the room', ROOM_MS, async () => (await df(workspace)).free >= 900)
  assert.equal(await fits(workspace, 'more', 600), true)
  assert.equal(await fits(workspace, 'too-much', 600), false)
  assert.equal((await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })).state, 'succeeded')
})

test('a snapshot reports the size of its disk, and takes no space from the workspace', async () => {
  const workspace = await open('snapshot')
  assert.equal(await fits(workspace, 'a', 600), true)
  const { checkpoint_id } = await done(workspace.id, 'snapshot')
  const [snapshot] = await checkpoints(workspace.id)
  assert.equal(snapshot?.id, checkpoint_id)
  const { disk_bytes } = snapshot ?? {}
  assert.ok(typeof disk_bytes === 'number' && disk_bytes >= 600 * MIB && disk_bytes < 640 * MIB, `${disk_bytes}`)
  await shell(workspace, 'rm a')
  await soonFits(workspace, 'b', 600)
  await done(workspace.id, 'restore', { checkpoint_id })
  assert.equal(await shell(workspace, 'ls'), 'a')
  assert.deepEqual([await fits(workspace, 'c', 600), await fits(workspace, 'c', 300)], [false, true])
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
})

test('a full workspace is reset and restored, and a reset that would exceed its space is refused and changes nothing', async () => {
  const workspace = await open('reset')
  await fill(workspace)
  const { recovery_checkpoint_id } = await done(workspace.id, 'reset', { confirm_destructive: true })
  assert.equal(await fits(workspace, 'a', 300), true)
  await fill(workspace)
  const before = await view(workspace.id)
  const { state, error } = await operate(workspace.id, 'reset', { confirm_destructive: true })
  assert.deepEqual([state, error?.code, error?.details?.reason], ['failed', 'dependency_failed', 'disk_full'])
  const { observed_state, ownership_epoch } = await view(workspace.id)
  assert.deepEqual([observed_state, ownership_epoch], ['running', before.ownership_epoch])
  assert.equal(await shell(workspace, 'rm -f small*; ls'), 'a\nbig')
  await done(workspace.id, 'restore', { checkpoint_id: recovery_checkpoint_id })
  assert.equal(await shell(workspace, 'rm -f small*; ls'), 'big')
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
})

test('a fork of a full workspace is full too, and each frees its own space', async () => {
  const source = await open('source')
  await fill(source)
  const { state, error } = await operate(source.id, 'fork', { key: 'forked', caps: { disk_gib: 1, memory_mib: 512 } })
  assert.deepEqual([state, error], ['succeeded', null])
  const fork = await open('forked')
  assert.equal(await fits(fork, 'more', 8), false)
  await shell(fork, 'rm big')
  await soonFits(fork, 'more', 600)
  assert.equal(await fits(source, 'more', 8), false)
  await shell(source, 'rm big')
  await soonFits(source, 'more', 600)
  for (const { id } of [source, fork]) await client.operate(`/v1/workspaces/${id}`, { method: 'DELETE' })
})

test('a workspace that failed with a full disk is restored from its checkpoint, and its last disk can be brought back', async () => {
  const workspace = await open('failed')
  await shell(workspace, 'echo early >file; sync')
  const { checkpoint_id } = await done(workspace.id, 'snapshot')
  await shell(workspace, 'echo late >file; sync')
  await fill(workspace)
  await service.kill_machine(workspace.id)
  await until('it is failed', ROOM_MS, async () => (await view(workspace.id)).observed_state === 'failed')
  const { recovery_checkpoint_id } = await done(workspace.id, 'restore', { checkpoint_id })
  assert.equal((await view(workspace.id)).observed_state, 'suspended')
  assert.equal(await shell(await open('failed'), 'cat file; ls'), 'early\nfile')
  await done(workspace.id, 'restore', { checkpoint_id: recovery_checkpoint_id })
  assert.equal(await shell(workspace, 'cat file; rm -f small*; ls'), 'late\nbig\nfile')
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
})
