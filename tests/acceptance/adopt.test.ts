import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

interface View {
  id: string
  key: string
  observed_state: string
  ownership_epoch: number
  ended_reason: string | null
  ceilings: object
}

let service: SharedService
let client: Client

before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
})
after(async () => {
  await service.stop()
})

const GONE_MS = 60_000
const path = (id: string, verb: string) => `/v1/workspaces/${id}/${verb}`
const open = (key: string, body: object = {}) => client.open(key, { caps: { memory_mib: 512 }, ...body })
const view = async (id: string) => (await client.api<View>(`/v1/workspaces/${id}`)).body
const remove = (id: string) => client.operate(`/v1/workspaces/${id}`, { method: 'DELETE' })

async function operated(id: string, verb: string, json?: object): Promise<Record<string, unknown>> {
  const { state, error, result } = await client.operate(path(id, verb), json === undefined ? {} : { json })
  assert.deepEqual([state, error], ['succeeded', null], verb)
  return result ?? {}
}

async function fork(id: string, key: string): Promise<OpenedWorkspace> {
  const { status, body } = await client.api<{ operation: { id: string } }>(path(id, 'fork'), { json: { key } })
  assert.equal(status, 202)
  await until('it is forked', GONE_MS, async () => {
    const { body: operation } = await client.api<{ state: string }>(`/v1/operations/${body.operation.id}`)
    return operation.state === 'succeeded'
  })
  return open(key)
}

const shell = async (workspace: OpenedWorkspace, script: string) => {
  const { stdout, exit } = await client.run({ ...workspace, token: await client.token(workspace.id) }, ['bash', '-c', script])
  assert.equal(exit.exit_code, 0, script)
  return stdout.trim()
}

/** A Python program, because a shell loses a signal that arrives while its trap runs. */
const COUNTER = `import os, signal, time
count = 0
def tell(*_):
    with open('told.new', 'w') as told: told.write(str(count))
    os.rename('told.new', 'told')
def jump(*_):
    global count
    count += 1000000
signal.signal(signal.SIGUSR1, tell)
signal.signal(signal.SIGUSR2, jump)
with open('pid.new', 'w') as pid: pid.write(str(os.getpid()))
os.rename('pid.new', 'pid')
while True:
    count += 1
    time.sleep(0.01)
`

async function counter(workspace: OpenedWorkspace): Promise<void> {
  await client.tool(workspace, '/exec', { json: { session_id: 'counter', argv: ['python3', '-c', COUNTER] } })
  await shell(workspace, 'until [ -s pid ]; do sleep 0.02; done')
}

const count = async (workspace: OpenedWorkspace) =>
  Number(await shell(workspace, 'rm -f told; kill -USR1 $(cat pid); until [ -s told ]; do sleep 0.02; done; cat told'))

test('an adopt gives a workspace the memory, processes, files and commands of its fork, and keeps its key, id and name', async () => {
  const workspace = await open('adopts')
  await counter(workspace)
  await shell(workspace, 'echo of the workspace > f')
  const copy = await fork(workspace.id, 'adopts-fork')
  await shell(copy, 'echo of the fork > f; echo new > g; kill -USR2 $(cat pid)')
  const hostname = await shell(workspace, 'hostname')
  const before = await view(workspace.id)
  await client.tool(workspace, '/exec', { json: { session_id: 'under-way', argv: ['sleep', '600'] } })
  const { recovery_checkpoint_id, ownership_epoch } = await operated(workspace.id, 'adopt', { fork_workspace_id: copy.id })
  const now = await view(workspace.id)
  assert.deepEqual([now.id, now.key, now.observed_state, now.ceilings], [before.id, 'adopts', 'running', before.ceilings])
  assert.deepEqual([now.ownership_epoch, ownership_epoch], [before.ownership_epoch + 1, before.ownership_epoch + 1])
  // A command of the workspace has ended as after a restore; a command of the fork continues.
  const stale = await client.tool<{ error: { code: string } }>(workspace, '/exec/under-way')
  assert.equal(stale.body.error.code, 'stale_epoch')
  const token = await client.token(workspace.id)
  assert.equal((await client.tool({ ...workspace, token }, '/exec/under-way')).status, 404)
  const { status, body } = await client.tool<{ state: string }>({ ...workspace, token }, '/exec/counter')
  assert.deepEqual([status, body.state], [200, 'running'])
  assert.equal(await shell(workspace, 'cat f g; hostname'), `of the fork\nnew\n${hostname}`)
  const adopted = await count(workspace)
  assert.ok(adopted > 1_000_000, `${adopted}`)
  await shell(copy, 'echo later > f; kill -USR2 $(cat pid)')
  assert.ok((await count(copy)) > 2_000_000)
  assert.ok((await count(workspace)) < 2_000_000)
  assert.equal(await shell(workspace, 'cat f'), 'of the fork')
  assert.notEqual(await shell(workspace, 'cat /etc/machine-id'), await shell(copy, 'cat /etc/machine-id'))
  await operated(workspace.id, 'restore', { checkpoint_id: recovery_checkpoint_id })
  assert.equal(await shell(workspace, 'cat f; ls g 2>/dev/null || echo gone'), 'of the workspace\ngone')
  assert.ok((await count(workspace)) < 1_000_000)
  for (const { id } of [workspace, copy]) await remove(id)
})

test('a workspace can adopt a fork of the same key again and again', async () => {
  const workspace = await open('attempts')
  await counter(workspace)
  for (let turn = 1; turn <= 2; turn++) {
    const copy = await fork(workspace.id, 'attempts-better')
    await shell(copy, `echo ${turn} >> turns; kill -USR2 $(cat pid)`)
    await operated(workspace.id, 'adopt', { fork_workspace_id: copy.id, delete_fork: true })
    assert.equal(await shell(workspace, 'wc -l < turns'), String(turn))
    assert.equal(Math.floor((await count(workspace)) / 1_000_000), turn)
    await until('the fork is gone', GONE_MS, async () => (await view(copy.id)).observed_state === 'deleted')
    assert.equal((await view(copy.id)).ended_reason, 'adopted')
    const inventory = await service.inventory()
    assert.deepEqual(
      [...inventory.machines, ...inventory.files].filter(({ subject }) => subject.id === copy.id),
      [],
    )
  }
  await remove(workspace.id)
})

test('a suspended workspace adopts a suspended fork and both stay suspended; a fork can adopt its source', async () => {
  const workspace = await open('adopts-asleep')
  await counter(workspace)
  const copy = await fork(workspace.id, 'adopts-asleep-fork')
  await shell(copy, 'echo of the fork > f; kill -USR2 $(cat pid)')
  await operated(workspace.id, 'suspend')
  await operated(copy.id, 'suspend')
  const { recovery_checkpoint_id } = await operated(workspace.id, 'adopt', { fork_workspace_id: copy.id })
  assert.deepEqual([(await view(workspace.id)).observed_state, (await view(copy.id)).observed_state], ['suspended', 'suspended'])
  await operated(workspace.id, 'resume')
  assert.equal(await shell(workspace, 'cat f'), 'of the fork')
  assert.ok((await count(workspace)) > 1_000_000)
  await operated(copy.id, 'resume')
  await shell(workspace, 'echo of the source > f')
  await operated(copy.id, 'adopt', { fork_workspace_id: workspace.id })
  assert.equal(await shell(copy, 'cat f'), 'of the source')
  await operated(workspace.id, 'restore', { checkpoint_id: recovery_checkpoint_id })
  assert.equal(await shell(workspace, 'ls f 2>/dev/null || echo gone'), 'gone')
  for (const { id } of [workspace, copy]) await remove(id)
})
