import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'

const PARK_MS = 40_000
const WITNESS = `import os, signal
kept = open('/home/user/gone', 'w+')
os.remove('/home/user/gone')
print('kept', file=kept, flush=True)
def say(*_):
    kept.seek(0)
    with open('/home/user/said.new', 'w') as said: said.write(kept.read())
    os.rename('/home/user/said.new', '/home/user/said')
signal.signal(signal.SIGUSR1, say)
with open('/home/user/pid', 'w') as pid: pid.write(str(os.getpid()))
while True: signal.pause()
`
let service: Service
let client: Client
let workspace: OpenedWorkspace

before(async () => {
  service = await startService({ settings: { slot_memory_mib: 512, freeze_after_seconds: 1, hibernate_after_seconds: 3 } })
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('sleeps', { caps: { memory_mib: 512 } })
  // Memory, and a process with a file that has no name any more; it says what is in it when it is asked.
  await client.tool(workspace, '/files?path=/home/user/witness.py', { method: 'PUT', bytes: Buffer.from(WITNESS) })
  await run(
    'echo canary >/dev/shm/canary; setsid python3 /home/user/witness.py >/dev/null 2>&1 & until [ -s /home/user/pid ]; do sleep 0.05; done',
  )
  await run('echo on the disk >/home/user/file; sync')
})
after(() => service.stop())
beforeEach(async () => {
  workspace.token = await client.token(workspace.id)
})

const run = async (script: string) => (await client.run(workspace, ['bash', '-c', script])).stdout.trim()
const hasMachine = async (id = workspace.id) => (await service.inventory()).machines.some((one) => one.workspace_id === id)
const hibernated = (id = workspace.id) => until('it is hibernated', PARK_MS, async () => !(await hasMachine(id)))
const state = async () => (await client.api<{ observed_state: string; ownership_epoch: number }>(`/v1/workspaces/${workspace.id}`)).body
const witness = () =>
  run('cd /home/user; rm -f said; kill -USR1 $(cat pid); until [ -s said ]; do sleep 0.05; done; cat /dev/shm/canary said file')
const WITNESSED = 'canary\nkept\non the disk'

test('a hibernated workspace runs on by its state and epoch, and the next call restores memory, processes and open files', async () => {
  const before = await state()
  await hibernated()
  const { observed_state, ownership_epoch } = await state()
  assert.deepEqual([observed_state, ownership_epoch], ['running', before.ownership_epoch])
  // The token of before.
  assert.equal(await witness(), WITNESSED)
  assert.equal(await hasMachine(), true)
  const { body } = await client.api<{ data: { kind: string }[] }>(`/v1/workspaces/${workspace.id}/checkpoints`)
  assert.deepEqual(body.data, [])
})

test('its files are read from the disk, which wakes nobody', async () => {
  await hibernated()
  const answer = await client.tool(workspace, '/files?path=/home/user/file')
  assert.deepEqual([answer.status, answer.headers['x-served-from'], answer.bytes.toString()], [200, 'disk', 'on the disk\n'])
  assert.equal(await hasMachine(), false)
  const memory = await client.tool(workspace, '/files?path=/dev/shm/canary')
  assert.deepEqual([memory.status, memory.headers['x-served-from'], memory.bytes.toString()], [200, undefined, 'canary\n'])
})

test('a hint wakes it ahead of the call', async () => {
  await hibernated()
  const { status, body } = await client.tool<{ residency: string }>(workspace, '/wake-hint', { json: {} })
  assert.deepEqual([status, body.residency], [202, 'hibernated'])
  await until('it is there', PARK_MS, () => hasMachine())
  assert.equal(await witness(), WITNESSED)
})

test('output of a command is read on over a hibernation, from its offsets', async () => {
  await client.tool(workspace, '/exec', { json: { session_id: 'prints', argv: ['bash', '-c', 'echo one; echo two'] } })
  await until('it has ended', PARK_MS, async () => (await client.tool(workspace, '/exec/prints')).body['state'] === 'exited')
  await hibernated()
  const answer = await client.tool(workspace, '/exec/prints/output?stdout_offset=4&stderr_offset=0')
  const [first] = answer.bytes.toString().split('\n')
  assert.equal(Buffer.from(String(JSON.parse(first ?? '{}').data), 'base64').toString(), 'two\n')
})

test('a snapshot, a fork, a suspend and a resume of a hibernated workspace have everything', async () => {
  await hibernated()
  assert.equal((await client.operate(`/v1/workspaces/${workspace.id}/snapshot`)).state, 'succeeded')
  const fork = await client.operate(`/v1/workspaces/${workspace.id}/fork`, { json: { key: 'copy' } })
  assert.equal(fork.state, 'succeeded')
  const copy = await client.open('copy')
  assert.equal((await client.run(copy, ['cat', '/dev/shm/canary'])).stdout, 'canary\n')
  await client.api(`/v1/workspaces/${copy.id}`, { method: 'DELETE' })
  assert.equal((await client.operate(`/v1/workspaces/${workspace.id}/suspend`)).state, 'succeeded')
  assert.equal((await client.operate(`/v1/workspaces/${workspace.id}/resume`)).state, 'succeeded')
  workspace.token = await client.token(workspace.id)
  assert.equal(await witness(), WITNESSED)
})

test('a restart of the whole service with a hibernated workspace loses nothing', async () => {
  await hibernated()
  await service.restart()
  assert.equal((await state()).observed_state, 'running')
  assert.equal(await witness(), WITNESSED)
})

test('a hostd that was killed wakes what sleeps when it is back', async () => {
  await hibernated()
  await service.kill9('hostd')
  await service.ready()
  assert.equal(await witness(), WITNESSED)
})
