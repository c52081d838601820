import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
let token: string
before(async () => {
  bench = await openBench()
  await bench.database.superuser
    .updateTable('api_keys')
    .set({ tool_permissions: ['exec', 'process'] })
    .execute()
  token = await bench.token({ tools: ['process'] })
})
after(() => bench[Symbol.asyncDispose]())

const PROCESS = {
  pid: 7,
  ppid: 0,
  user: 'user',
  name: 'a',
  command: ['a'],
  command_truncated: false,
  state: 'running',
  threads: 1,
  cpu_ms: 0,
  memory_bytes: 0,
  started_at: '2026-01-01T00:00:00.000Z',
  session_id: null,
}
const list = (processes: unknown) => {
  bench.agent.script = (_request, response) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ processes, truncated: false }))
  return bench.call('GET', '/processes', { token })
}

test('fields that an agent adds to a process do not reach the client, and nonsense is internal_error', async () => {
  const good = await list([{ ...PROCESS, injected: 'x' }])
  assert.deepEqual([good.status, await good.json()], [200, { processes: [PROCESS], truncated: false }])
  const lies = [
    { pid: -1 },
    { pid: '7' },
    { state: 'well' },
    { cpu_ms: 2 ** 60 },
    { command: 'a' },
    { started_at: 'yesterday' },
    { session_id: 5 },
  ]
  for (const lie of lies) assert.equal(await refusalOf(await list([{ ...PROCESS, ...lie }])), '500 internal_error', JSON.stringify(lie))
  assert.equal(await refusalOf(await list(Array.from({ length: 4097 }, () => PROCESS))), '500 internal_error')
  bench.agent.script = null
})

test('an unknown signal is refused before the machine is called, and the tool is process', async () => {
  const before = bench.agent.seen.length
  assert.equal(
    await refusalOf(await bench.call('POST', '/processes/7/signal', { token, json: { signal: 'KILLED' } })),
    '422 validation_failed',
  )
  assert.equal(
    await refusalOf(await bench.call('POST', '/processes/7/signal', { token, json: { signal: 'SIGTERM', all: true } })),
    '400 bad_request',
  )
  const other = await bench.token({ tools: ['exec'] })
  assert.equal(await refusalOf(await bench.call('GET', '/processes', { token: other })), '403 forbidden')
  assert.equal(bench.agent.seen.length, before)
})
