import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../support/processes.ts'
import { type Bench, goodClaims, openBench } from './support/gateway.ts'

let bench: Bench
before(async () => {
  bench = await openBench()
})
after(() => bench[Symbol.asyncDispose]())

const recorded = () =>
  bench.database.superuser.selectFrom('audit_events').selectAll().where('action', '=', 'tools.use').orderBy('id').execute()
const exec = (session_id: string) =>
  bench.call('POST', '/exec', { json: { session_id, argv: ['echo', 'a-secret-word'], env: { A: 'a-secret-word' } } })

test('many uses of a tool in one minute are one record of their user; another tool or minute is another record', async () => {
  const begin_of_minute = 60_000 - (bench.clock.now().getTime() % 60_000)
  bench.clock.ahead_ms += begin_of_minute + 1000
  for (let n = 0; n < 5; n++) assert.equal((await exec(`s${n}`)).status, 201)
  assert.equal((await bench.call('PUT', '/files?path=/etc/a-secret-name', { body: 'a-secret-word' })).status, 200)
  bench.clock.ahead_ms += 60_000
  assert.equal((await bench.call('GET', '/exec/s1', { token: await bench.token() })).status, 200)
  await until('three records', 30_000, async () => (await recorded()).length >= 3)
  const rows = await recorded()
  assert.deepEqual(rows.map(({ details }) => details['tool']).sort(), ['exec', 'exec', 'files'])
  const minutes = [...new Set(rows.map(({ details }) => details['minute']))]
  assert.deepEqual([minutes.length, minutes.every((minute) => String(minute).endsWith(':00.000Z'))], [2, true])
  const claims = goodClaims(bench.clock, bench)
  for (const row of rows) {
    assert.deepEqual(
      [row.actor_kind, row.actor_id, row.actor_name, row.subject_kind, row.subject_id, row.source_address, row.request_id],
      ['tool_token', claims['sid'], `api_key:${bench.api_key_id}`, 'workspace', bench.workspace_id, '127.0.0.1', null],
    )
  }
  assert.doesNotMatch(JSON.stringify(rows), /a-secret/)
})

test('a refused call and a call without a tool are no use', async () => {
  const before = (await recorded()).length
  bench.clock.ahead_ms += 60_000
  assert.equal((await bench.call('GET', '/exec/s1', { token: await bench.token({ tools: ['files'] }) })).status, 403)
  assert.equal((await bench.call('GET', '/exec/s1', { token: await bench.token({ epoch: 2 }) })).status, 409)
  assert.equal((await bench.call('GET', '/idle', { token: await bench.token() })).status, 200)
  assert.equal((await bench.call('PUT', '/files?path=/a', { body: 'a', token: await bench.token() })).status, 200)
  await until('the one that was served', 30_000, async () => (await recorded()).length > before)
  assert.deepEqual((await recorded()).slice(before).map(({ details }) => details['tool']), ['files']) // prettier-ignore
})
