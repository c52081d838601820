// Needs its own installation: the tests kill, restart and reboot it.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createClient, type Client, ndjson, type OpenedWorkspace, send } from '../support/client.ts'
import { type Machines, machinesOf, OWN_ADDRESS } from '../support/machines.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'
import { assertContinues, startWitness, type Testimony } from '../support/witness.ts'

const PARK_MS = 120_000
const SEEN_MS = 10_000
/** Less than the reconciler's interval of a minute: the wake did not wait for the reconciler. */
const FOUND_MS = 45_000
const small = { caps: { memory_mib: 512 } }
let service: Service
let client: Client
let machines: Machines
let lasting: Sleeper

before(async () => {
  const settings = {
    slot_memory_mib: 512,
    overcommit: 64,
    memory_overcommit: 8,
    disk_overcommit: 200,
    freeze_after_seconds: 1,
    hibernate_after_seconds: 3,
  }
  service = await startService({ settings })
  client = createClient(service.base_url, service.api_key)
  machines = machinesOf(service)
  lasting = await open('lasting')
})
after(() => service.stop())

interface Sleeper {
  workspace: OpenedWorkspace
  witness: Testimony
  run(script: string): Promise<string>
  hasMachine(): Promise<boolean>
  hibernated(): Promise<void>
  view(): Promise<{ observed_state: string; ownership_epoch: number }>
  keepAwake(seconds: number): Promise<unknown>
  isWhole(): Promise<void>
}

async function open(key: string): Promise<Sleeper> {
  const workspace = await client.open(key, small)
  const run = async (script: string) => (await client.run(workspace, ['bash', '-c', script])).stdout.trim()
  const witness = await startWitness(client, workspace)
  await run('echo on the disk >/home/user/file; sync')
  const { id } = workspace
  return {
    workspace,
    witness,
    run,
    hasMachine: async () => (await machines.stateOf(id)) !== undefined,
    hibernated: () => machines.until(`${key} is hibernated`, PARK_MS, (all) => !all.some(({ subject }) => subject.id === id)),
    view: async () => (await client.api<{ observed_state: string; ownership_epoch: number }>(`/v1/workspaces/${id}`)).body,
    keepAwake: (seconds) => client.tool(workspace, '/keepalive', { json: { seconds } }),
    async isWhole() {
      await assertContinues(client, workspace, witness)
      assert.equal(await run('cat /home/user/file'), 'on the disk')
    },
  }
}

test('each freeze, hibernation, wake and thaw is counted', async () => {
  const moves = async () => {
    const metrics = await service.metrics('cell')
    return ['freeze', 'hibernate', 'wake', 'thaw'].map((move) => metrics.get(`berth_parking_moves_total{move="${move}"}`) ?? 0)
  }
  await lasting.keepAwake(3600) // the counts must cover only this one parking
  const before = await moves()
  await lasting.keepAwake(0)
  await lasting.hibernated()
  await lasting.keepAwake(3600)
  await lasting.isWhole()
  const after = await moves()
  assert.deepEqual(
    after.map((count, index) => count - (before[index] ?? 0)),
    [1, 1, 1, 0],
  )
})

// These tests run concurrently, because each mostly waits.
describe('side by side', { concurrency: 8 }, () => {
  test('a hibernated workspace keeps state running and its epoch, and the next call restores memory, processes and open files', async () => {
    const { workspace, view, hibernated, isWhole, hasMachine } = await open('state')
    const before = await view()
    await hibernated()
    const { observed_state, ownership_epoch } = await view()
    assert.deepEqual([observed_state, ownership_epoch], ['running', before.ownership_epoch])
    await isWhole()
    assert.equal(await hasMachine(), true)
    const { body } = await client.api<{ data: { kind: string }[] }>(`/v1/workspaces/${workspace.id}/checkpoints`)
    assert.deepEqual(body.data, [])
  })

  test('reads of its files come from the disk and do not wake it', async () => {
    const { workspace, witness, hibernated, hasMachine } = await open('files')
    await hibernated()
    const answer = await client.tool(workspace, '/files?path=/home/user/file')
    assert.deepEqual([answer.status, answer.headers['x-served-from'], answer.bytes.toString()], [200, 'disk', 'on the disk\n'])
    assert.equal(await hasMachine(), false)
    const memory = await client.tool(workspace, '/files?path=/dev/shm/canary')
    assert.deepEqual([memory.status, memory.headers['x-served-from'], memory.bytes.toString()], [200, undefined, witness.canary])
  })

  test('it wakes with the same network address', async () => {
    const { workspace, run, hibernated } = await open('address')
    const address = await run(OWN_ADDRESS)
    const slot = (await service.inventory()).machines.find(({ subject }) => subject.id === workspace.id)?.slot ?? ''
    await hibernated()
    await machines.untilNoNetwork(slot, PARK_MS)
    assert.equal(await run(OWN_ADDRESS), address)
  })

  test('a wake hint wakes it before the call', async () => {
    const { workspace, hibernated, hasMachine, isWhole } = await open('hint')
    await hibernated()
    const { status, body } = await client.tool<{ residency: string }>(workspace, '/wake-hint', { json: {} })
    assert.deepEqual([status, body.residency], [202, 'hibernated'])
    await until('it is there', PARK_MS, hasMachine)
    await isWhole()
  })

  test('a watch without a reader lets it hibernate, and a later read of the watch wakes it and misses nothing', async () => {
    const { workspace, hibernated, hasMachine, isWhole } = await open('watched')
    const { endpoint, id, token } = workspace
    const events = async (query: string, enough: (event: Record<string, unknown>) => boolean) => {
      const stream = await send(`${endpoint}/v1/workspaces/${id}/files/watch?path=/home/user${query}`, { token })
      const read: Record<string, unknown>[] = []
      for await (const event of ndjson(stream)) if (read.push(event) && enough(event)) break
      stream.destroy()
      return read
    }
    const [begun] = await events('', () => true)
    await client.tool(workspace, '/files?path=/home/user/unread', { method: 'PUT', bytes: Buffer.from('x') })
    await hibernated()
    const [start, ...told] = await events(`&watch_id=${String(begun?.['watch_id'])}&offset=0`, ({ change }) => change === 'added')
    assert.deepEqual([start, told.at(-1)?.['path']], [{ ...begun, offset: 0 }, '/home/user/unread'])
    assert.equal(await hasMachine(), true)
    await isWhole()
  })

  test('output of a command continues over a hibernation from its offsets', async () => {
    const { workspace, hibernated } = await open('output')
    await client.tool(workspace, '/exec', { json: { session_id: 'prints', argv: ['bash', '-c', 'echo one; echo two'] } })
    await until('it has ended', PARK_MS, async () => (await client.tool(workspace, '/exec/prints')).body['state'] === 'exited')
    await hibernated()
    const answer = await client.tool(workspace, '/exec/prints/output?stdout_offset=4&stderr_offset=0')
    const [first] = answer.bytes.toString().split('\n')
    assert.equal(Buffer.from(String(JSON.parse(first ?? '{}').data), 'base64').toString(), 'two\n')
  })

  test('a snapshot, a fork, a suspend and a resume of a hibernated workspace lose nothing', async () => {
    const { workspace, witness, hibernated, isWhole } = await open('operated')
    const succeeds = async (verb: string, json?: Record<string, unknown>) => {
      const { state, error } = await client.operate(`/v1/workspaces/${workspace.id}/${verb}`, json ? { json } : {})
      assert.deepEqual([verb, state, error], [verb, 'succeeded', null])
    }
    await hibernated()
    await succeeds('snapshot')
    await succeeds('fork', { key: 'copy' })
    const copy = await client.open('copy')
    assert.equal((await client.run(copy, ['cat', '/dev/shm/canary'])).stdout, witness.canary)
    await client.operate(`/v1/workspaces/${copy.id}`, { method: 'DELETE' })
    await succeeds('suspend')
    await succeeds('resume')
    workspace.token = await client.token(workspace.id)
    await isWhole()
  })

  test('it is metered with its disk and with its saved memory', async () => {
    const { workspace, run, keepAwake, hibernated } = await open('metered')
    await run('head -c 100M /dev/urandom >/home/user/ballast; sync')
    // The machine stays awake, because the quota counts data only after a commit, up to half a minute later.
    await keepAwake(600)
    let awake_bytes = 0
    await until('the disk is counted', PARK_MS, async () => (awake_bytes = (await service.counters(workspace.id)).disk_bytes) >= 100 << 20)
    await keepAwake(0)
    await hibernated()
    const SLEEPS = 'workspaces w join usage_counters c on c.workspace_id = w.id and c.fence = w.residency_fence where w.id = $1'
    await until('it was read asleep', PARK_MS, async () => (await service.query(`select from ${SLEEPS}`, [workspace.id])).length === 1)
    const sampled = async () => {
      const columns = ['sampled_ms', 'disk_byte_ms', 'memory_byte_ms', 'cpu_usec'].map((name) => `sum(${name})::float8 as ${name}`)
      const sums = `select ${columns.join()} from usage_samples where workspace_id = $1`
      const [row] = await service.query<Record<'sampled_ms' | 'disk_byte_ms' | 'memory_byte_ms' | 'cpu_usec', number>>(sums, [workspace.id])
      assert.ok(row)
      return row
    }
    const before = await sampled()
    let after = before
    await until('it was read again', PARK_MS, async () => (after = await sampled()).sampled_ms > before.sampled_ms)
    const slept_ms = after.sampled_ms - before.sampled_ms
    const disk_bytes = (after.disk_byte_ms - before.disk_byte_ms) / slept_ms
    assert.ok(Math.abs(disk_bytes - awake_bytes) < 16 << 20, `${awake_bytes} awake, ${disk_bytes} asleep`)
    const SAVED = "select size_bytes::float8 from checkpoints where workspace_id = $1 and kind = 'parked'"
    const [saved] = await service.query<{ size_bytes: number }>(SAVED, [workspace.id])
    assert.deepEqual([(after.memory_byte_ms - before.memory_byte_ms) / slept_ms, after.cpu_usec], [saved?.size_bytes, before.cpu_usec])
  })
})

test('after a reboot it still wakes; a workspace with a machine is failed and starts from its current disk', async () => {
  const { view, hibernated, hasMachine, isWhole, keepAwake } = lasting
  await keepAwake(0)
  const resident = await client.open('resident', small)
  await client.tool(resident, '/keepalive', { json: { seconds: 3600 } })
  const written = await client.tool(resident, '/files?path=/home/user/kept', { method: 'PUT', bytes: Buffer.from('current') })
  assert.equal(written.body['durable'], true)
  await hibernated()
  const { ownership_epoch } = await view()
  await service.reboot()
  const began_ms = performance.now()
  const failed = async () => (await client.api(`/v1/workspaces/${resident.id}`)).body['observed_state'] === 'failed'
  await until('what had a machine has failed', SEEN_MS, failed)
  assert.deepEqual([(await view()).observed_state, (await view()).ownership_epoch, await hasMachine()], ['running', ownership_epoch, false])
  await isWhole()
  assert.ok(performance.now() - began_ms < FOUND_MS)
  const again = await client.open('resident')
  assert.deepEqual([again.id, (await client.run(again, ['cat', '/home/user/kept'])).stdout], [resident.id, 'current'])
})

test('a restart of the whole service with a hibernated workspace loses nothing', async () => {
  const { view, hibernated, isWhole } = lasting
  await hibernated()
  await service.restart()
  assert.equal((await view()).observed_state, 'running')
  await isWhole()
})

test('after a kill of hostd, a hibernated workspace wakes', async () => {
  const { hibernated, isWhole } = lasting
  await hibernated()
  await service.kill9('hostd')
  await service.ready()
  await isWhole()
})
