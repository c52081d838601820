// Needs its own installation: the tests break it.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { createClient, type Client } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'

interface Finding {
  check: string
  level: 'ok' | 'notice' | 'wrong'
  text: string
}

let service: Service
let client: Client

before(async () => {
  service = await startService({ settings: { slot_memory_mib: 512 } })
  client = createClient(service.base_url, service.api_key)
})
after(async () => {
  await service.stop()
})

async function doctor(): Promise<{ code: number; healthy: boolean; findings: Finding[] }> {
  const { code, stdout } = await service.admin('doctor', '--json').then(
    (text) => ({ code: 0, stdout: text }),
    (error: unknown) => error as { code: number; stdout: string },
  )
  return { code, ...(JSON.parse(stdout) as { healthy: boolean; findings: Finding[] }) }
}

const bad = (findings: Finding[]) => findings.filter(({ level }) => level === 'wrong').map(({ check }) => check)
const find = (findings: Finding[], check: string) => findings.filter((one) => one.check === check).map(({ text }) => text)

test('on a healthy installation every check is ok, the exit code is 0, and the metrics match', async () => {
  const running = await client.open('running', { caps: { memory_mib: 512 } })
  const asleep = await client.open('asleep', { caps: { memory_mib: 512 } })
  assert.equal((await client.operate(`/v1/workspaces/${asleep.id}/suspend`)).state, 'succeeded')
  await service.slots_ready()
  await until('the doctor finds nothing', 120_000, async () =>
    (await doctor()).findings.every(({ check, level }) => level === 'ok' || check === 'data_disk'),
  )
  const { code, healthy, findings } = await doctor()
  assert.deepEqual([code, healthy, bad(findings)], [0, true, []])
  assert.deepEqual(
    findings.map(({ check }) => check).filter((check) => check !== 'file_systems'),
    ['kernel', 'processes', 'ready', 'data_disk', 'pool', 'hostd', 'names', 'firewall', 'ready_ahead', 'leftovers', 'database', 'clock', 'lease', 'reconciled', 'operations', 'capacity', 'holds', 'secret_keys', 'mail', 'usage', 'machines', 'checkpoints', 'disks', 'installation', 'quarantine', 'layers'], // prettier-ignore
  )
  assert.match(find(findings, 'database')[0] ?? '', /PostgreSQL 18\.\d+; workspaces: 1 running, 1 suspended/)
  assert.match(find(findings, 'hostd')[0] ?? '', /engine .+, 1 machines/)
  const seen = await service.metrics('cell')
  assert.deepEqual(
    ['berth_workspaces{state="running"}', 'berth_workspaces{state="suspended"}', 'berth_workspaces{state="failed"}', 'berth_host_machines', 'berth_host_checkpoints', 'berth_host_up', 'berth_cell_acts', 'berth_host_slots_ready', 'berth_operation_seconds_count{kind="open",outcome="succeeded"}', 'berth_operation_seconds_count{kind="suspend",outcome="succeeded"}'].map((name) => seen.get(name)), // prettier-ignore
    [1, 1, 0, 1, 1, 1, 1, 1, 2, 1],
  )
  assert.equal((await service.metrics('cell')).get('berth_operation_seconds_count{kind="open",outcome="succeeded"}'), 2) // a second scrape does not count again
  assert.ok((seen.get('berth_pool_free_bytes') ?? 0) > (seen.get('berth_pool_reserve_bytes') ?? 0))
  assert.equal(running.id.length, 36)
})

test('the doctor names everything that the test broke with exit code 1, and a death and its repair are counted', async () => {
  const { body } = await client.api<{ data: { id: string; observed_state: string }[] }>('/v1/workspaces')
  const asleep = body.data.find(({ observed_state }) => observed_state === 'suspended')?.id ?? ''
  const running = body.data.find(({ observed_state }) => observed_state === 'running')?.id ?? ''
  const lost = randomUUID()
  await service.kill9('cell') // the cell reconciles at its start; its next pass comes too late
  await service.ready()
  await service.query(
    `insert into checkpoints (id, workspace_id, cell_id, operation_id, kind, epoch, engine, size_bytes, resources, created_at)
     select $1, workspace_id, cell_id, operation_id, 'snapshot', epoch, 'another engine', 1, resources, created_at from checkpoints where workspace_id = $2`,
    [lost, asleep],
  )
  await service.query(
    `insert into workspace_holds select workspace_id, id, 'closed' from operations where workspace_id = $1 and kind = 'suspend'`,
    [asleep],
  )
  execFileSync('ip', ['link', 'add', `b${service.instance}m900`, 'type', 'veth', 'peer', 'name', `z${service.instance}`])
  const { code, healthy, findings } = await doctor()
  assert.deepEqual([code, healthy, bad(findings)], [1, false, ['holds', 'checkpoints', 'checkpoints']])
  assert.deepEqual(find(findings, 'holds'), [`Held by operations that are over: ${asleep}`])
  assert.deepEqual(find(findings, 'checkpoints'), [
    `Rows without whole files: ${lost}`,
    `Of an engine that is not kept: they cannot be resumed: ${lost}`,
  ])
  assert.deepEqual(find(findings, 'leftovers'), [`Without an owner, removed within a minute: host link b${service.instance}m900`])
  await service.query('delete from checkpoints where id = $1', [lost])
  execFileSync('ip', ['link', 'del', `b${service.instance}m900`]) // tests of hostd prove that hostd removes it
  const before = (await service.metrics('cell')).get('berth_machine_deaths_total{reason="killed"}') ?? 0
  await service.kill_machine(running)
  await until(
    'the death is counted',
    60_000,
    async () => ((await service.metrics('cell')).get('berth_machine_deaths_total{reason="killed"}') ?? 0) === before + 1,
  )
  await service.kill9('cell') // the cell reconciles at its start and every minute
  await service.ready()
  await until(
    'everything has put itself right',
    180_000,
    async () => (await doctor()).healthy && (await doctor()).findings.every(({ check, level }) => level === 'ok' || check === 'data_disk'),
  )
  assert.ok(((await service.metrics('cell')).get('berth_recoveries_total{what="holds_dropped"}') ?? 0) >= 1)
})

test('the doctor reports that hostd, the database and the cell are down', async () => {
  await service.stopProcesses()
  const { code, findings } = await doctor()
  assert.equal(code, 1)
  assert.deepEqual(bad(findings), ['processes', 'ready', 'hostd', 'database'])
  const text = await service.admin('doctor').catch((error: unknown) => (error as { stdout: string }).stdout)
  assert.match(text, /^WRONG {3}hostd +hostd does not answer; machines run on without it$/m)
  await service.ready()
})
