import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { sql } from 'kysely'
import { hostFull, takenOver, wakeFailed } from '../../service/cell/machines/parking-refusals.ts'
import type { Waking } from '../../service/cell/machines/parking.ts'
import type { ResidencyState } from '../../service/cell/machines/table.ts'
import { until } from '../support/processes.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

class ParkedMachine implements Waking {
  parked = true
  woken = 0
  wakes: () => Promise<void> = async () => undefined
  residency: ResidencyState = 'resident'

  ready: Waking['ready'] = ({ machine }) => (this.parked ? null : machine)
  wake: Waking['wake'] = async () => {
    this.woken += 1
    await this.wakes()
    this.parked = false
  }
  hint: Waking['hint'] = () => this.residency
}

let bench: Bench
let machine: ParkedMachine
before(async () => {
  bench = await openBench()
  await bench.call('POST', '/exec', { json: { session_id: 's', argv: ['a'] } })
})
beforeEach(() => {
  machine = new ParkedMachine()
  const { ready, wake, hint } = machine
  Object.assign(bench.waking, { ready, wake, hint })
})
after(() => bench[Symbol.asyncDispose]())

test('a tool call wakes the machine first, keeps it awake, and then runs', async () => {
  machine.wakes = async () => assert.deepEqual(bench.table.held, [`call ${bench.workspace_id}`])
  assert.equal((await bench.call('GET', '/exec/s')).status, 200)
  assert.deepEqual([machine.woken, bench.table.held], [1, []])
})

test('a failed wake is 503 wake_failed, retryable, and nothing ran', async () => {
  machine.wakes = () => Promise.reject(wakeFailed())
  const asked = bench.agent.seen.length
  const answer = await bench.call('POST', '/exec', { json: { argv: ['a'] } })
  const { error } = (await answer.clone().json()) as { error: Record<string, unknown> }
  assert.deepEqual(
    [await refusalOf(answer), error['retryable'], answer.headers.get('retry-after')],
    ['503 service_unavailable/wake_failed', true, '1'],
  )
  assert.deepEqual([bench.agent.seen.length, bench.table.held], [asked, []])
})

test('the workspace is judged again after the wake', async () => {
  const { entry } = bench.life
  machine.wakes = async () => bench.table.set(bench.workspace_id, { observed_state: 'suspended', machine: null })
  assert.equal(await refusalOf(await bench.call('GET', '/exec/s')), '409 workspace_not_running')
  bench.table.entries.set(bench.workspace_id, entry)
})

test("a hint answers at once with the machine's residency, and does not wake a suspended workspace", async () => {
  for (const residency of ['resident', 'frozen', 'hibernated', 'restoring'] as const) {
    machine.residency = residency
    const answer = await bench.call('POST', '/wake-hint', { json: {} })
    assert.deepEqual([answer.status, await answer.json()], [202, { residency }])
  }
  const { entry } = bench.life
  bench.table.set(bench.workspace_id, { observed_state: 'suspended', machine: null })
  assert.equal(await refusalOf(await bench.call('POST', '/wake-hint', { json: {} })), '409 workspace_not_running')
  bench.table.entries.set(bench.workspace_id, entry)
})

test('a keepalive wakes the machine and keeps it awake; its end wakes nothing; the idle record needs no machine', async () => {
  assert.equal((await bench.call('POST', '/keepalive', { json: { seconds: 0 } })).status, 200)
  assert.equal((await bench.call('GET', '/idle')).status, 200)
  assert.equal(machine.woken, 0)
  assert.equal((await bench.call('POST', '/keepalive', { json: { seconds: 60 } })).status, 200)
  assert.equal(machine.woken, 1)
  machine.parked = true
  const refusals: [Error, string][] = [
    [wakeFailed(), '503 service_unavailable/wake_failed'],
    [hostFull(), '503 service_unavailable/host_capacity'],
    [takenOver(), '409 workspace_busy/workspace_fenced'],
  ]
  for (const [refusal, expected] of refusals) {
    machine.wakes = () => Promise.reject(refusal)
    assert.equal(await refusalOf(await bench.call('POST', '/keepalive', { json: { seconds: 60 } })), expected)
  }
})

test('a machine that is frozen while a call cancels its suspend request is woken first', async () => {
  const { entry } = bench.life
  const { machine: running } = entry
  assert.ok(running)
  const suspend_requested_at = new Date(0)
  bench.table.set(bench.workspace_id, { suspend_requested_at })
  await bench.database.superuser.updateTable('workspaces').set({ suspend_requested_at }).where('id', '=', bench.workspace_id).execute()
  bench.waking.ready = (now) => (now.machine?.state === 'frozen' ? null : now.machine)
  machine.wakes = async () => bench.table.set(bench.workspace_id, { machine: running })
  bench.waking.wake = machine.wake
  const waiting = await bench.database.superuser.transaction().execute(async (tx) => {
    await tx.selectFrom('workspaces').select('id').where('id', '=', bench.workspace_id).forUpdate().execute()
    const called = bench.call('GET', '/exec/s')
    await until('the call waits for the row', 5000, async () => {
      const { rows } = await sql`select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`.execute(tx)
      return rows.length > 0
    })
    bench.table.set(bench.workspace_id, { machine: { ...running, state: 'frozen' } })
    return { called } // wrapped, so that the row lock is released before the call ends
  })
  assert.equal((await waiting.called).status, 200)
  assert.equal(machine.woken, 1)
  bench.table.entries.set(bench.workspace_id, entry)
})
