import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

interface View {
  id: string
  observed_state: string
  template: { slug: string; version: number }
}
interface Checkpoint {
  id: string
  kind: string
  label: string | null
  expires_at: string | null
  size_bytes: number
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

const CAPTURED_MS = 120_000
const path = (id: string, verb: string) => `/v1/workspaces/${id}/${verb}`
const open = (key: string) => client.open(key, { caps: { memory_mib: 512 } })
const view = async (id: string) => (await client.api<View>(`/v1/workspaces/${id}`)).body
const stateOf = async (operation_id: string) => (await client.api<{ state: string }>(`/v1/operations/${operation_id}`)).body.state
const checkpoints = async (id: string) => (await client.api<{ data: Checkpoint[] }>(path(id, 'checkpoints'))).body.data
const now = async (workspace: OpenedWorkspace) => ({ ...workspace, token: await client.token(workspace.id) })

async function operated(id: string, verb: string, json?: object): Promise<Record<string, unknown>> {
  const { state, error, result } = await client.operate(path(id, verb), json === undefined ? {} : { json })
  assert.deepEqual([state, error], ['succeeded', null], verb)
  return result ?? {}
}

const shell = async (workspace: OpenedWorkspace, script: string) => {
  const { stdout, exit } = await client.run(await now(workspace), ['bash', '-c', script])
  assert.equal(exit.exit_code, 0, script)
  return stdout.trim()
}

/** A Python program, because a shell loses a signal that arrives while its trap runs. */
const COUNTER = `import os, signal, time
count = 0
def tell(*_):
    with open('told.new', 'w') as told: told.write(str(count))
    os.rename('told.new', 'told')
signal.signal(signal.SIGUSR1, tell)
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

const told = async (workspace: OpenedWorkspace) =>
  (await shell(workspace, 'rm -f told; kill -USR1 $(cat pid); until [ -s told ]; do sleep 0.02; done; echo $(cat pid) $(cat told)'))
    .split(' ')
    .map(Number)

test('a snapshot keeps memory, processes and disk of one instant; the workspace runs on and can be restored to it', async () => {
  const workspace = await open('snapshots')
  await counter(workspace)
  await shell(workspace, 'echo before > f')
  const [pid, at_snapshot = 0] = await told(workspace)
  const { checkpoint_id } = await operated(workspace.id, 'snapshot', { label: 'before' })
  assert.equal((await client.tool(workspace, '/exec/counter')).status, 200)
  await shell(workspace, 'echo after > f; echo new > g')
  const [same, later = 0] = await told(workspace)
  assert.equal(same, pid)
  const { recovery_checkpoint_id } = await operated(workspace.id, 'restore', { checkpoint_id })
  assert.deepEqual((await client.tool<{ error: { code: string } }>(workspace, '/exec/counter')).body.error.code, 'stale_epoch')
  assert.equal(await shell(workspace, 'cat f; ls g 2>/dev/null || echo gone'), 'before\ngone')
  const [restored, after_restore = 0] = await told(workspace)
  assert.equal(restored, pid)
  assert.ok(after_restore >= at_snapshot && after_restore < later + 500, `${at_snapshot} ≤ ${after_restore}`)
  assert.deepEqual(
    (await checkpoints(workspace.id)).map(({ id, kind, label, expires_at }) => [id, kind, label, expires_at !== null]),
    [
      [recovery_checkpoint_id, 'recovery', null, true],
      [checkpoint_id, 'snapshot', 'before', false],
    ],
  )
  await operated(workspace.id, 'restore', { checkpoint_id: recovery_checkpoint_id })
  assert.equal(await shell(workspace, 'cat f g'), 'after\nnew')
  const [recovered, count = 0] = await told(workspace)
  assert.equal(recovered, pid)
  assert.ok(count >= later)
})

test('a reset removes all changes and processes, keeps id and version, and can be undone', async () => {
  const workspace = await open('reset')
  await counter(workspace)
  await shell(workspace, 'echo mine > f; sudo touch /etc/mine; sudo rm /etc/hostname')
  const seen = await view(workspace.id)
  const { recovery_checkpoint_id } = await operated(workspace.id, 'reset', { confirm_destructive: true })
  const reset = await view(workspace.id)
  assert.deepEqual([reset.id, reset.observed_state, reset.template], [seen.id, 'running', seen.template])
  assert.equal(await shell(workspace, 'ls f /etc/mine 2>/dev/null; pgrep -f "[t]old" >/dev/null && echo alive; ls ~ | wc -l'), '0')
  await operated(workspace.id, 'restore', { checkpoint_id: recovery_checkpoint_id })
  assert.equal(await shell(workspace, 'cat f; ls /etc/mine'), 'mine\n/etc/mine')
  await told(workspace)
})

test('reset, snapshot and restore of a suspended workspace do not start it', async () => {
  const workspace = await open('asleep')
  await counter(workspace)
  await shell(workspace, 'echo mine > f')
  await operated(workspace.id, 'suspend')
  const { checkpoint_id } = await operated(workspace.id, 'snapshot')
  await operated(workspace.id, 'reset', { confirm_destructive: true })
  assert.equal((await view(workspace.id)).observed_state, 'suspended')
  await operated(workspace.id, 'resume')
  assert.equal(await shell(workspace, 'ls f 2>/dev/null || echo blank'), 'blank')
  await operated(workspace.id, 'suspend')
  await operated(workspace.id, 'restore', { checkpoint_id })
  assert.equal((await view(workspace.id)).observed_state, 'suspended')
  await operated(workspace.id, 'resume')
  assert.equal(await shell(workspace, 'cat f'), 'mine')
  await told(workspace)
})

test('reads are served during the capture of a snapshot, and changes get workspace_busy', async () => {
  const workspace = await open('read-only')
  // A large memory makes the capture last longer than the calls below.
  const holder = ['python3', '-c', 'import os, time; kept = os.urandom(200 << 20); open("ready", "w"); time.sleep(600)']
  await client.tool(workspace, '/exec', { json: { argv: holder } })
  await shell(workspace, 'echo kept > f; until [ -e ready ]; do sleep 0.02; done')
  const { status, body } = await client.api<{ id: string; state: string }>(path(workspace.id, 'snapshot'), { method: 'POST' })
  assert.equal(status, 202)
  const busy = await refused(workspace)
  assert.deepEqual(
    [busy.status, busy.body.error.code, busy.body.error.operation_id, busy.body.error.details.tool_gate],
    [409, 'workspace_busy', body.id, 'read_only'],
  )
  const read = await client.tool(workspace, '/files?path=/home/user/f')
  assert.deepEqual([read.status, read.bytes.toString()], [200, 'kept\n'])
  await until('the snapshot is taken', CAPTURED_MS, async () => !['queued', 'running'].includes(await stateOf(body.id)))
  assert.equal(await stateOf(body.id), 'succeeded')
})

/** Repeats: the gateway admits changes until it learns of the operation. */
async function refused(workspace: OpenedWorkspace) {
  const deadline_ms = performance.now() + patience(30_000)
  for (let turn = 0; performance.now() < deadline_ms; turn++) {
    const answer = await client.tool<{ error: { code: string; operation_id: string; details: { tool_gate: string } } }>(
      workspace,
      '/files/mkdir',
      { json: { path: `/home/user/d${turn}` } },
    )
    if (answer.status !== 201) return answer
  }
  throw new Error('no change was refused')
}
