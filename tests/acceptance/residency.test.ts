import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { INTERNET_ADDRESS, openInternet, type Internet } from '../support/internet.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'

const PARK_MS = 120_000
const small = { caps: { memory_mib: 512 } }
let internet: Internet
let service: Service
let client: Client
let workspace: OpenedWorkspace

before(async () => {
  internet = await openInternet()
  service = await startService({ settings: { slot_memory_mib: 512, freeze_after_seconds: 2, uplink: internet.uplink } })
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('parked', small)
})
after(async () => {
  await service.stop()
  await internet.close()
})
beforeEach(async () => {
  workspace.token = await client.token(workspace.id)
})

const machineState = async (id = workspace.id) => (await service.inventory()).machines.find((one) => one.workspace_id === id)?.state
/** The host has frozen it, and the cell has heard so. */
const frozen = () =>
  until('it is frozen', PARK_MS, async () => {
    if ((await machineState()) !== 'frozen') return false
    return (await service.metrics('cell')).get('berth_cell_residency{residency="frozen"}') === 1
  })
const run = async (script: string) => (await client.run(workspace, ['bash', '-c', script])).stdout.trim()
/** Not a single time in so many seconds. */
async function staysResident(seconds: number): Promise<void> {
  for (const until_ms = performance.now() + seconds * 1000; performance.now() < until_ms;) {
    assert.equal(await machineState(), 'running')
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

test('an unused machine stands still, its workspace runs on, and the next call goes on where it was', async () => {
  const pid = await run('setsid sleep 1000 >/dev/null 2>&1 & echo $!')
  await frozen()
  const { observed_state, ready } = (await client.api(`/v1/workspaces/${workspace.id}`)).body
  assert.deepEqual([observed_state, ready], ['running', true])
  assert.equal(await run(`kill -0 ${pid} && echo alive; kill ${pid}`), 'alive')
  await frozen()
  const thaws = async () => (await service.metrics('cell')).get('berth_parking_moves_total{move="thaw"}') ?? 0
  const before = await thaws()
  assert.equal((await client.tool(workspace, '/files/stat?path=/home/user')).status, 200)
  assert.equal(await thaws(), before + 1)
})

test('timers fire late, never early', async () => {
  // The monotonic clock of a guest goes on while it stands still: what was due meanwhile is late, and nothing comes before its time.
  await run(`setsid bash -c 'a=$(date +%s%N); sleep 6; b=$(date +%s%N); echo $(( (b - a) / 1000000 )) >/home/user/slept' >/dev/null 2>&1 &`)
  await frozen()
  await new Promise((resolve) => setTimeout(resolve, 6000))
  const slept_ms = Number(await run('until [ -s /home/user/slept ]; do sleep 0.05; done; cat /home/user/slept'))
  assert.ok(slept_ms >= 6000, String(slept_ms))
})

test('a command that runs keeps it resident until it ends, though nobody follows it', async () => {
  await client.tool(workspace, '/exec', { json: { session_id: 'sleeps', argv: ['sleep', '15'] } })
  await staysResident(7)
  await frozen()
  const { body } = await client.tool<{ state: string; exit_code: number }>(workspace, '/exec/sleeps')
  assert.deepEqual([body.state, body.exit_code], ['exited', 0])
})

test('a process that uses the processor keeps it resident', async () => {
  const spin = await run('setsid bash -c "while :; do :; done" >/dev/null 2>&1 & echo $!')
  await staysResident(8)
  await run(`kill -9 ${spin}`)
  await frozen()
})

const CONNECTS = `import socket, time
peer = socket.create_connection(("${INTERNET_ADDRESS}", 80))
near, far = socket.socketpair()
`
/** As often as over the network, and as much, to itself: what keeps a machine resident is not the processor that this takes. */
const TALKS_TO_ITSELF = `
while True:
    near.sendall(bytes(200))
    far.recv(200)
    time.sleep(0.5)`
const TRICKLES: [what: string, url: string, program: string][] = [
  [
    'receives',
    '/trickle/30',
    `peer.sendall(b"GET /trickle/30 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
peer.settimeout(5)
try:
    while peer.recv(65536): pass
except TimeoutError: pass`,
  ],
  [
    'sends',
    '/sink',
    `peer.sendall(b"POST /sink HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 1000000\\r\\n\\r\\n")
for _ in range(30):
    peer.sendall(bytes(200))
    time.sleep(0.5)`,
  ],
]

for (const [what, url, program] of TRICKLES)
  test(`a process that ${what} 400 bytes a second keeps it resident until they end, though what it does then takes as much processor`, async () => {
    await client.tool(workspace, '/files?path=/home/user/trickles.py', {
      method: 'PUT',
      bytes: Buffer.from(CONNECTS + program + TALKS_TO_ITSELF),
    })
    const pid = await run('setsid python3 /home/user/trickles.py >/dev/null 2>&1 & echo $!')
    await internet.visited((visit) => visit.url === url)
    await staysResident(7)
    await frozen()
    // It has its connection still.
    assert.equal(await run(`kill -0 ${pid} && echo alive; kill ${pid}`), 'alive')
  })

test('a keepalive thaws it and keeps it resident until it is ended', async () => {
  await frozen()
  assert.equal((await client.tool(workspace, '/keepalive', { json: { seconds: 3600 } })).status, 200)
  assert.equal(await machineState(), 'running')
  await staysResident(6)
  assert.equal((await client.tool(workspace, '/keepalive', { json: { seconds: 0 } })).status, 200)
  await frozen()
})

test('a hint says that it was frozen, and wakes it without being activity', async () => {
  await frozen()
  const { body: before } = await client.tool<{ recent_activity: { active_at: string } }>(workspace, '/idle')
  const hint = () => client.tool(workspace, '/wake-hint', { json: {} })
  const answer = await hint()
  assert.deepEqual([answer.status, answer.body], [202, { residency: 'frozen' }])
  await until('it runs', PARK_MS, async () => (await machineState()) === 'running')
  assert.deepEqual((await hint()).body, { residency: 'resident' })
  await staysResident(5)
  const { body: after } = await client.tool<{ recent_activity: { active_at: string } }>(workspace, '/idle')
  assert.equal(after.recent_activity.active_at, before.recent_activity.active_at)
  await run('true')
})

test('a frozen machine is thawed while hostd is down, and suspends, resumes and forks like any other', async () => {
  await run('echo kept >/dev/shm/canary')
  await frozen()
  await service.kill9('hostd')
  assert.equal(await run('cat /dev/shm/canary'), 'kept')
  await service.ready()
  await frozen()
  const suspended = await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  assert.deepEqual([suspended.state, suspended.error], ['succeeded', null])
  assert.equal((await client.operate(`/v1/workspaces/${workspace.id}/resume`)).state, 'succeeded')
  workspace.token = await client.token(workspace.id)
  await frozen()
  assert.equal((await client.operate(`/v1/workspaces/${workspace.id}/snapshot`)).state, 'succeeded')
  assert.equal(await run('cat /dev/shm/canary'), 'kept')
})

test('a restart of the service finds it frozen, and the first call thaws it', async () => {
  await run('echo kept >/dev/shm/canary')
  await frozen()
  await service.restart()
  assert.equal(await machineState(), 'frozen')
  assert.equal(await run('cat /dev/shm/canary'), 'kept')
})
