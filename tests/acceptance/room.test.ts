// Needs its own installation: its capacity is small and the tests kill its cell.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { otherPrograms, otherVersion } from '../support/other-programs.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'
import { assertContinues, startWitness, type Testimony } from '../support/witness.ts'

/** Includes the headroom, which is charged for the engine. */
const MACHINE_MIB = 1024 + 192
const ROOM = 3
const ASKED_MS = 120_000

const programs = otherPrograms()
let service: Service
let client: Client
const sleepers: { key: string; workspace: OpenedWorkspace; witness: Testimony }[] = []

before(async () => {
  const settings = {
    capacity_memory_mib: ROOM * MACHINE_MIB,
    disk_overcommit: 1000,
    freeze_after_seconds: 2,
    hibernate_after_seconds: 3600, // a machine is hibernated only to release capacity
    runsc: programs.engine(),
  }
  service = await startService({ settings })
  client = createClient(service.base_url, service.api_key)
})
after(async () => {
  await service.stop()
  programs[Symbol.dispose]()
})

async function open(key: string): Promise<void> {
  const workspace = await client.open(key)
  sleepers.push({ key, workspace, witness: await startWitness(client, workspace) })
}

const keyOf = (id: string) => sleepers.find(({ workspace }) => workspace.id === id)?.key ?? id
const resident = async () => (await service.inventory()).machines.map(({ subject }) => keyOf(subject.id)).sort()
const hibernated = async () => {
  const rows = await service.query<{ key: string }>(
    "select key from workspaces where residency = 'hibernated' and observed_state = 'running' order by key",
  )
  return rows.map(({ key }) => key)
}
const serves = async (key: string) => {
  const sleeper = sleepers.find((each) => each.key === key)
  assert.ok(sleeper)
  await assertContinues(client, sleeper.workspace, sleeper.witness)
}

async function assertBookFits(): Promise<void> {
  const [taken] = await service.query<{ memory_mib: number }>(
    `select coalesce(sum(memory_mib + 192), 0)::int as memory_mib from grants where kind = 'workspace' and (is_reserved or residency <> 'hibernated')`,
  )
  assert.ok(taken && taken.memory_mib <= ROOM * MACHINE_MIB, `${taken?.memory_mib} MiB are taken`)
  assert.ok((await resident()).length <= ROOM)
}

test('with capacity for three, six opens all run: the least recently used are hibernated, and a call to one of them finds its memory', async () => {
  for (let count = 0; count < 6; count += 1) await open(`w${count}`)
  const { data } = (await client.api<{ data: { observed_state: string }[] }>('/v1/workspaces')).body
  assert.deepEqual(
    data.map(({ observed_state }) => observed_state),
    Array(6).fill('running'),
  )
  assert.deepEqual([await hibernated(), await resident()], [['w0', 'w1', 'w2'], ['w3', 'w4', 'w5']]) // prettier-ignore
  await serves('w0')
  assert.deepEqual([await hibernated(), await resident()], [['w1', 'w2', 'w3'], ['w0', 'w4', 'w5']]) // prettier-ignore
  for (const { key } of sleepers) await serves(key)
  await assertBookFits()
  const [refused] = await service.query<{ count: number }>(`select count(*)::int as count from operations where state <> 'succeeded'`)
  assert.equal(refused?.count, 0)
})

test('after a kill of the cell while ten wakes wait, repeated calls are answered, each command ran once, and grants fit the capacity', async () => {
  for (let count = 6; count < 13; count += 1) await open(`w${count}`)
  const asleep = await hibernated()
  assert.equal(asleep.length, 10)
  // A workspace is not evicted within a second of its last use, so the wakes wait.
  for (const { key, workspace } of sleepers) if (!asleep.includes(key)) await client.run(workspace, ['true'])
  const calls = sleepers.filter(({ key }) => asleep.includes(key)).map(({ workspace }) => once(workspace))
  await until('ten wakes wait', ASKED_MS, async () => waiting(await service.metrics('cell')) >= 10)
  await service.kill9('cell')
  await Promise.all(calls)
  for (const { key, workspace } of sleepers) {
    if (!asleep.includes(key)) continue
    const { stdout } = await client.run(workspace, ['sh', '-c', 'until [ -s /home/user/once ]; do sleep 0.05; done; cat /home/user/once'])
    assert.equal(stdout, 'ran\n', key)
  }
  for (const { key } of sleepers) await serves(key)
  await assertBookFits()
  assert.equal(waiting(await service.metrics('cell')), 0)
})

function waiting(metrics: ReadonlyMap<string, number>): number {
  return [...metrics].filter(([name]) => name.startsWith('berth_room_waiting')).reduce((sum, [, value]) => sum + value, 0)
}

async function once(workspace: OpenedWorkspace): Promise<void> {
  const json = { session_id: 'once', argv: ['sh', '-c', 'echo ran >>/home/user/once'] }
  await until(`${keyOf(workspace.id)} is answered`, ASKED_MS, async () => {
    const answer = await client.tool<{ error?: { retryable: boolean } }>(workspace, '/exec', { json }).catch(() => null) // the connection broke
    if (answer === null) return false
    assert.ok(answer.status < 300 || answer.body.error?.retryable === true, JSON.stringify(answer.body))
    return answer.status < 300
  })
}

test('a new version with less capacity than its machines use still serves running, frozen, hibernated and suspended workspaces', async () => {
  const [awake, ...others] = await resident()
  const [asleep] = await hibernated()
  assert.ok(awake !== undefined && asleep !== undefined)
  const of = (key: string) => sleepers.find((each) => each.key === key)?.workspace
  const [running, suspended] = [of(awake), of(asleep)]
  assert.ok(running && suspended)
  assert.equal((await client.operate(`/v1/workspaces/${suspended.id}/suspend`)).state, 'succeeded')
  await client.tool(running, '/keepalive', { json: { seconds: 3600 } })
  const states = async () => new Map((await service.inventory()).machines.map(({ subject, state }) => [keyOf(subject.id), state]))
  await until('the others are frozen', ASKED_MS, async () => {
    const found = await states()
    return others.filter((key) => found.has(key)).every((key) => found.get(key) === 'frozen')
  })
  const before = await states()
  const { engine } = await service.inventory()
  await service.stopProcesses()
  const [runsc, agent] = [programs.engineOf(engine, otherVersion(engine, 'y', 'x')), programs.agent()]
  await service.restart({ runsc, agent, capacity_memory_mib: 2 * MACHINE_MIB })
  assert.deepEqual(await states(), before)
  assert.deepEqual([...before.values()].sort(), ['frozen', 'frozen', 'running'])
  await client.tool(running, '/keepalive', { json: { seconds: 1 } })
  const reopened = sleepers.find(({ key }) => key === asleep)
  assert.ok(reopened)
  reopened.workspace = await client.open(asleep)
  for (const { key } of sleepers) await serves(key)
  assert.ok((await resident()).length <= 2)
})
