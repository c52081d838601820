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

const LATER: [method: string, path: string, feature: string, json?: unknown][] = [
  ['POST', '/pty', 'pty', { session_id: 't' }],
  ['GET', '/exec', 'command_list'],
  ['GET', '/pty', 'command_list'],
  ['GET', '/pty/t', 'pty'],
  ['DELETE', '/pty/t', 'pty'],
  ['POST', '/pty/t/resize', 'pty', { cols: 80, rows: 24 }],
  ['POST', '/pty/t/input', 'pty', { data: 'bHM=' }],
  ['POST', '/files/search', 'file_search', { path: '/home/user', pattern: 'a' }],
  ['POST', '/files/patch', 'file_patch', { path: '/home/user/a', content: 'a' }],
  ['GET', '/changes', 'changes'],
  ['GET', '/processes', 'processes'],
  ['POST', '/processes/7/signal', 'processes', { signal: 'SIGTERM' }],
  ['POST', '/git/clone', 'git', { url: 'https://host.test/a', path: '/a' }],
  ['GET', '/git/status?path=/a', 'git'],
  ['POST', '/git/commit', 'git', { path: '/a', message: 'm' }],
  ['GET', '/files/watch?path=/a', 'watch'],
  ['GET', '/files/tar?path=/a', 'tar'],
  ['PUT', '/files/tar?path=/a', 'tar'],
  ['GET', '/files/list?path=/home/user&cursor=MDph', 'file_list'],
  ['GET', '/files/list?path=/home/user&recursive=true', 'file_list'],
  ['POST', '/exec', 'stdin', { argv: ['cat'], stdin_open: true }],
  ['POST', '/exec/a/stdin?offset=0', 'stdin'],
  ['POST', '/browser/screenshot', 'browser', { url: 'http://127.0.0.1/' }],
  ['POST', '/browser/content', 'browser', { url: 'http://127.0.0.1/' }],
]
for (const [method, path, feature, json] of LATER) {
  test(`${method} ${path} of a workspace whose agent is of the first protocol is guest_feature_unavailable, and nothing is asked`, async () => {
    const asked = bench.agent.seen.length
    const refused = await call(method, path, json)
    const { error } = (await refused.clone().json()) as { error: { details: { feature: string } } }
    assert.deepEqual([await refusalOf(refused), error.details.feature], ['409 conflict/guest_feature_unavailable', feature])
    assert.equal(bench.agent.seen.length, asked)
  })
}

test('an attach to the terminal of such a workspace gets the same refusal before the close', async () => {
  const attached = await attach(`${bench.gateway.address}/v1/workspaces/${bench.workspace_id}/pty/t/attach`, { token })
  const [event] = await attached.rest()
  assert.deepEqual([event?.type, event?.error?.code, event?.error?.details?.['reason']], ['error', 'conflict', 'guest_feature_unavailable'])
  assert.equal((await attached.closed).code, 4409)
})

test('an attach to its command that sends stdin gets the same refusal', async () => {
  assert.equal((await call('POST', '/exec', { session_id: 'attached', argv: ['a'] })).status, 201)
  const attached = await attach(`${bench.gateway.address}/v1/workspaces/${bench.workspace_id}/exec/attached/attach`, { token })
  attached.say({ type: 'stdin', offset: 0, data: '' })
  const [event] = await attached.rest()
  assert.deepEqual([event?.error?.code, event?.error?.details?.['reason']], ['conflict', 'guest_feature_unavailable'])
})

test('commands and files of such a workspace are served', async () => {
  assert.equal((await call('POST', '/exec', { session_id: 'a', argv: ['a'] })).status, 201)
  assert.equal((await call('GET', '/exec/a')).status, 200)
  assert.equal((await bench.call('PUT', '/files?path=/home/user/a', { token, body: 'text' })).status, 200)
  assert.equal(await (await call('GET', '/files?path=/home/user/a')).text(), 'text')
  assert.equal((await call('GET', '/files/stat?path=/home/user/a')).status, 200)
})
