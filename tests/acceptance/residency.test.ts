// Needs its own installation: the tests kill and restart it.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { INTERNET_ADDRESS, openInternet, type Internet } from '../support/internet.ts'
import { type Machines, machinesOf } from '../support/machines.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'

const PARK_MS = 120_000
const FREEZE_AFTER_SECONDS = 3
let internet: Internet
let service: Service
let client: Client
let machines: Machines
let parked: Parked

before(async () => {
  internet = await openInternet()
  const settings = {
    slots: 2,
    slot_memory_mib: 512,
    overcommit: 64,
    memory_overcommit: 8,
    disk_overcommit: 200,
    freeze_after_seconds: FREEZE_AFTER_SECONDS,
  }
  service = await startService({ settings: { ...settings, uplink: internet.uplink } })
  client = createClient(service.base_url, service.api_key)
  machines = machinesOf(service)
  parked = await open('parked')
})
after(async () => {
  await service.stop()
  await internet.close()
})

interface Parked {
  workspace: OpenedWorkspace
  run(script: string): Promise<string>
  frozen(): Promise<void>
  state(): Promise<string | undefined>
  staysResident(seconds: number): Promise<void>
}

async function open(key: string): Promise<Parked> {
  const workspace = await client.open(key, { caps: { memory_mib: 512 } })
  const state = () => machines.stateOf(workspace.id)
  const heardOf = async () => (await service.metrics('cell')).get('berth_cell_residency{residency="frozen"}') ?? 0
  return {
    workspace,
    state,
    run: async (script) => (await client.run(workspace, ['bash', '-c', script])).stdout.trim(),
    async frozen() {
      let count = 0
      await machines.until(`${key} is frozen`, PARK_MS, (all) => {
        count = all.filter((one) => one.state === 'frozen').length
        return all.some((one) => one.subject.id === workspace.id && one.state === 'frozen')
      })
      await until(`the cell has heard of ${count}`, PARK_MS, async () => (await heardOf()) >= count || (await state()) !== 'frozen')
    },
    async staysResident(seconds) {
      for (const until_ms = performance.now() + seconds * 1000; performance.now() < until_ms;) {
        assert.equal(await state(), 'running')
        await new Promise((resolve) => setTimeout(resolve, 250))
      }
    },
  }
}

const LONG_ENOUGH_SECONDS = 2.5 * FREEZE_AFTER_SECONDS

test('an idle machine is frozen, its workspace stays running, and the next call continues with its processes', async () => {
  const { workspace, run, frozen } = parked
  const pid = await run('setsid sleep 1000 >/dev/null 2>&1 & echo $!')
  await frozen()
  const { observed_state, ready } = (await client.api(`/v1/workspaces/${workspace.id}`)).body
  assert.deepEqual([observed_state, ready], ['running', true])
  const thaws = async () => (await service.metrics('cell')).get('berth_parking_moves_total{move="thaw"}') ?? 0
  const before = await thaws()
  assert.equal((await client.tool(workspace, '/files/stat?path=/home/user')).status, 200)
  assert.equal(await thaws(), before + 1)
  assert.equal(await run(`kill -0 ${pid} && echo alive; kill ${pid}`), 'alive')
})

test('repeated reads of the idle state do not keep a machine resident', async () => {
  const { workspace, frozen } = await open('asked')
  const reading = new AbortController()
  const reads = (async () => {
    while (!reading.signal.aborted) {
      assert.equal((await client.tool(workspace, '/idle')).status, 200)
      await new Promise((resolve) => setTimeout(resolve, 250))
    }
  })()
  try {
    await Promise.race([frozen(), reads])
  } finally {
    reading.abort()
    await reads
  }
})

/** Twice a second, for far longer than the check takes, which may start late on a busy computer. */
const TALKS = 50
const CONNECTS = `import socket, time
peer = socket.create_connection(("${INTERNET_ADDRESS}", 80))
near, far = socket.socketpair()
`
/** The program talks to itself, too. This CPU time alone must not keep a machine resident. */
const TALKS_TO_ITSELF = `
while True:
    near.sendall(bytes(200))
    far.recv(200)
    time.sleep(0.5)`
const TRICKLES: [what: string, url: string, program: string][] = [
  [
    'receives',
    `/trickle/${TALKS}`,
    `peer.sendall(b"GET /trickle/${TALKS} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
peer.settimeout(5)
try:
    while peer.recv(65536): pass
except TimeoutError: pass`,
  ],
  [
    'sends',
    '/sink',
    `peer.sendall(b"POST /sink HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 1000000\\r\\n\\r\\n")
began, sent = time.monotonic(), 0
while sent < ${TALKS}:
    # However late it comes to it: a guest that gets too little of the processors sends as much.
    due = min(int((time.monotonic() - began) * 2), ${TALKS})
    if due > sent: peer.sendall(bytes(200 * (due - sent)))
    sent = due
    time.sleep(0.5)`,
  ],
]

// These tests run concurrently, because each mostly waits.
describe('side by side', { concurrency: 8 }, () => {
  test('timers fire late, never early', async () => {
    const { run, frozen } = await open('timers')
    // The guest's monotonic clock continues while frozen.
    await run(
      `setsid bash -c 'a=$(date +%s%N); sleep 8; b=$(date +%s%N); echo $(( (b - a) / 1000000 )) >/home/user/slept' >/dev/null 2>&1 &`,
    )
    await frozen()
    await new Promise((resolve) => setTimeout(resolve, 8000))
    const slept_ms = Number(await run('until [ -s /home/user/slept ]; do sleep 0.05; done; cat /home/user/slept'))
    assert.ok(slept_ms >= 8000, String(slept_ms))
  })

  test('a running command without a reader keeps it resident until it ends', async () => {
    const { workspace, staysResident, frozen } = await open('command')
    await client.tool(workspace, '/exec', { json: { session_id: 'sleeps', argv: ['sleep', '12'] } })
    await staysResident(LONG_ENOUGH_SECONDS)
    await frozen()
    const { body } = await client.tool<{ state: string; exit_code: number }>(workspace, '/exec/sleeps')
    assert.deepEqual([body.state, body.exit_code], ['exited', 0])
  })

  test('a process that uses CPU keeps it resident', async () => {
    const { run, staysResident, frozen } = await open('processor')
    const spin = await run('setsid bash -c "while :; do :; done" >/dev/null 2>&1 & echo $!')
    await staysResident(LONG_ENOUGH_SECONDS)
    await run(`kill -9 ${spin}`)
    await frozen()
  })

  for (const [what, url, program] of TRICKLES)
    test(`a process that ${what} 400 bytes a second keeps it resident until they end, though what it does then takes as much processor`, async () => {
      const { workspace, run, staysResident, frozen } = await open(what)
      await client.tool(workspace, '/files?path=/home/user/trickles.py', {
        method: 'PUT',
        bytes: Buffer.from(CONNECTS + program + TALKS_TO_ITSELF),
      })
      // The keepalive covers the connect, which may take long on a busy computer.
      await client.tool(workspace, '/keepalive', { json: { seconds: 3600 } })
      const pid = await run('setsid python3 /home/user/trickles.py >/dev/null 2>&1 & echo $!')
      await internet.visited((visit) => visit.url === url)
      await client.tool(workspace, '/keepalive', { json: { seconds: 0 } })
      await staysResident(LONG_ENOUGH_SECONDS)
      await frozen()
      assert.equal(await run(`kill -0 ${pid} && echo alive; kill ${pid}`), 'alive')
    })

  test('a keepalive thaws it and keeps it resident until it is ended', async () => {
    const { workspace, state, staysResident, frozen } = await open('keepalive')
    await frozen()
    assert.equal((await client.tool(workspace, '/keepalive', { json: { seconds: 3600 } })).status, 200)
    assert.equal(await state(), 'running')
    await staysResident(LONG_ENOUGH_SECONDS)
    assert.equal((await client.tool(workspace, '/keepalive', { json: { seconds: 0 } })).status, 200)
    await frozen()
  })

  test('a wake hint reports that it was frozen, thaws it, and does not count as activity', async () => {
    const { workspace, state, staysResident, frozen } = await open('hint')
    await frozen()
    const activeAt = async () =>
      (await client.tool<{ recent_activity: { active_at: string } }>(workspace, '/idle')).body.recent_activity.active_at
    const before = await activeAt()
    const hint = () => client.tool(workspace, '/wake-hint', { json: {} })
    const answer = await hint()
    assert.deepEqual([answer.status, answer.body], [202, { residency: 'frozen' }])
    await until('it runs', PARK_MS, async () => (await state()) === 'running')
    assert.deepEqual((await hint()).body, { residency: 'resident' })
    await staysResident(LONG_ENOUGH_SECONDS)
    assert.equal(await activeAt(), before)
  })
})

test('a frozen machine can be thawed while hostd is down, and suspends, resumes and forks', async () => {
  const { workspace, run, frozen } = parked
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
  const forked = await client.operate(`/v1/workspaces/${workspace.id}/fork`, { json: { key: 'forked' } })
  assert.equal(forked.state, 'succeeded')
  assert.equal(await run('cat /dev/shm/canary'), 'kept')
})

test('a frozen machine stays frozen over a restart of the service, and the first call thaws it', async () => {
  const { workspace, run, frozen, state } = parked
  await run('echo kept >/dev/shm/canary')
  await frozen()
  await service.restart()
  assert.equal(await state(), 'frozen')
  workspace.token = await client.token(workspace.id)
  assert.equal(await run('cat /dev/shm/canary'), 'kept')
})
