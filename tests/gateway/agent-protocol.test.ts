import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { attach } from '../support/attached.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
let token: string
before(async () => {
  bench = await openBench()
  const tool_permissions = ['exec', 'files', 'pty', 'process', 'git', 'browser'] as const
  await bench.database.superuser
    .updateTable('api_keys')
    .set({ tool_permissions: [...tool_permissions] })
    .execute()
  token = await bench.token({ tools: tool_permissions })
  const { entry } = bench.life
  assert.ok(entry.machine)
  bench.table.entries.set(entry.id, { ...entry, machine: { ...entry.machine, agent_protocol: 1 } })
})
after(() => bench[Symbol.asyncDispose]())

const call = (method: string, path: string, json?: unknown) => bench.call(method, path, { token, ...(json === undefined ? {} : { json }) })

/** What the first agents did not know. */
const LATER: [string, string, unknown?][] = [
  ['POST', '/pty', { session_id: 't' }],
  ['GET', '/pty/t'],
  ['DELETE', '/pty/t'],
  ['POST', '/pty/t/resize', { cols: 80, rows: 24 }],
  ['POST', '/pty/t/input', { data: 'bHM=' }],
  ['POST', '/files/search', { path: '/home/user', pattern: 'a' }],
  ['POST', '/files/patch', { path: '/home/user/a', content: 'a' }],
  ['GET', '/changes'],
  ['GET', '/processes'],
  ['POST', '/processes/7/signal', { signal: 'SIGTERM' }],
  ['POST', '/git/clone', { url: 'https://host.test/a', path: '/a' }],
  ['GET', '/git/status?path=/a'],
  ['POST', '/git/commit', { path: '/a', message: 'm' }],
  ['GET', '/files/watch?path=/a'],
  ['GET', '/files/tar?path=/a'],
  ['PUT', '/files/tar?path=/a'],
  ['GET', '/files/list?path=/home/user&cursor=MDph'],
  ['GET', '/files/list?path=/home/user&recursive=true'],
  ['POST', '/exec', { argv: ['cat'], stdin_open: true }],
  ['POST', '/exec/a/stdin?offset=0'],
  ['POST', '/browser/screenshot', { url: 'http://127.0.0.1/' }],
  ['POST', '/browser/content', { url: 'http://127.0.0.1/' }],
]
for (const [method, path, json] of LATER) {
  test(`${method} ${path} of a workspace whose agent is of the first protocol is guest_feature_unavailable, and nothing is asked`, async () => {
    const asked = bench.agent.seen.length
    assert.equal(await refusalOf(await call(method, path, json)), '409 conflict/guest_feature_unavailable')
    assert.equal(bench.agent.seen.length, asked)
  })
}

test('an attach to its terminal is told the same before the close', async () => {
  const attached = await attach(`${bench.gateway.address}/v1/workspaces/${bench.workspace_id}/pty/t/attach`, { token })
  const [event] = await attached.rest()
  assert.deepEqual([event?.type, event?.error?.code, event?.error?.details?.['reason']], ['error', 'conflict', 'guest_feature_unavailable'])
  assert.equal((await attached.closed).code, 4409)
})

test('an attach to its command that sends stdin is told the same', async () => {
  assert.equal((await call('POST', '/exec', { session_id: 'attached', argv: ['a'] })).status, 201)
  const attached = await attach(`${bench.gateway.address}/v1/workspaces/${bench.workspace_id}/exec/attached/attach`, { token })
  attached.say({ type: 'stdin', offset: 0, data: '' })
  const [event] = await attached.rest()
  assert.deepEqual([event?.error?.code, event?.error?.details?.['reason']], ['conflict', 'guest_feature_unavailable'])
})

test('its commands and files are served', async () => {
  assert.equal((await call('POST', '/exec', { session_id: 'a', argv: ['a'] })).status, 201)
  assert.equal((await call('GET', '/exec/a')).status, 200)
  assert.equal((await bench.call('PUT', '/files?path=/home/user/a', { token, body: 'text' })).status, 200)
  assert.equal(await (await call('GET', '/files?path=/home/user/a')).text(), 'text')
  assert.equal((await call('GET', '/files/stat?path=/home/user/a')).status, 200)
})
