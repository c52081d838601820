import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import type { CommandList } from '../../contract/schemas/cell/lists.ts'
import { answer } from './support/fake-agent.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
let token: string
before(async () => {
  bench = await openBench()
  await bench.database.superuser
    .updateTable('api_keys')
    .set({ tool_permissions: ['exec', 'pty', 'files'] })
    .execute()
  token = await bench.token({ tools: ['exec', 'pty'] })
})
after(() => bench[Symbol.asyncDispose]())

const list = async (query = '') => (await (await bench.call('GET', `/exec${query}`, { token })).json()) as CommandList

test("a command's request is listed without the values of its environment", async () => {
  for (const session_id of ['a', 'b', 'c'])
    await bench.call('POST', '/exec', { token, json: { session_id, argv: ['sleep', '9'], env: { KEY: 'a value that is secret' } } })
  bench.agent.sessions.get('b')?.exit(3)
  const all = await list()
  assert.deepEqual(all.data.map(({ session_id, state, exit_code }) => [session_id, state, exit_code]), [['c', 'running', null], ['b', 'exited', 3], ['a', 'running', null]]) // prettier-ignore
  assert.deepEqual([all.data[0]?.argv, all.data[0]?.cwd, all.data[0]?.argv_truncated], [['sleep', '9'], '/home/user', false])
  assert.ok(!JSON.stringify(all).includes('secret'))
  assert.deepEqual((await list('?state=running')).data.map(({ session_id }) => session_id), ['c', 'a']) // prettier-ignore
  assert.deepEqual((await list('?state=ended')).data.map(({ session_id }) => session_id), ['b']) // prettier-ignore
  const first = await list('?limit=2')
  assert.deepEqual((await list(`?limit=2&cursor=${first.next_cursor}`)).data.map(({ session_id }) => session_id), ['a']) // prettier-ignore
})

test('a list needs the tool of its entries and a valid state', async () => {
  const files = await bench.token({ tools: ['files'] })
  for (const path of ['/exec', '/pty']) {
    assert.equal(await refusalOf(await bench.call('GET', path, { token: files })), '403 forbidden')
    assert.equal(await refusalOf(await bench.call('GET', `${path}?state=starting`, { token })), '400 bad_request')
    assert.equal(await refusalOf(await bench.call('GET', `${path}?limit=${LIMITS.page.size_max + 1}`, { token })), '400 bad_request')
  }
})

const COMMAND = {
  ...{ session_id: 'a', argv: ['a'], argv_truncated: false, cwd: '/', user: 'user', state: 'running', pid: 7, exit_code: null },
  ...{ term_signal: null, timed_out: false, started_at: '2026-01-01T00:00:00.000Z', ended_at: null, error: null },
  ...{ stdout_bytes: 0, stderr_bytes: 0 },
}
const TERMINAL = {
  ...{ session_id: 't', argv: ['a'], argv_truncated: true, cwd: '/', user: 'user', state: 'exited', pid: 7, cols: 80, rows: 24 },
  ...{ exit_code: 0, term_signal: null, started_at: '2026-01-01T00:00:00.000Z', ended_at: null, error: null, output_bytes: 5 },
}
for (const [path, name, row] of [
  ['/exec', 'commands', COMMAND],
  ['/pty', 'terminals', TERMINAL],
] as const)
  test(`what an agent adds to one of its ${name} does not reach the client, and what makes no sense is internal_error`, async () => {
    const says = async (rows: object[], next_cursor: unknown = null) => {
      bench.agent.script = (_request, response) => answer(response, 200, { [name]: rows, next_cursor })
      try {
        return await bench.call('GET', path, { token })
      } finally {
        bench.agent.script = null
      }
    }
    const good = await says([{ ...row, env: { KEY: 'value' } }], '5-ab')
    assert.deepEqual([good.status, await good.json()], [200, { data: [row], next_cursor: '5-ab' }])
    for (const lie of [{ session_id: 5 }, { state: 'well' }, { argv: 'a' }, { argv_truncated: 1 }, { started_at: 'yesterday' }])
      assert.equal(await refusalOf(await says([{ ...row, ...lie }])), '500 internal_error', JSON.stringify(lie))
    assert.equal(await refusalOf(await says(Array.from({ length: 201 }, () => row))), '500 internal_error')
    assert.equal(await refusalOf(await says([row], 'a cursor\n')), '500 internal_error')
  })
