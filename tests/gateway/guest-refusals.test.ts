import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { CELL_CODES, type CellCode } from '../../contract/errors.ts'
import { browserContent, browserScreenshot } from '../../contract/routes/cell/browser.ts'
import { gitClone, gitCommit, gitStatus } from '../../contract/routes/cell/git.ts'
import { processList, processSignal } from '../../contract/routes/cell/processes.ts'
import type { CellRoute } from '../../contract/route.ts'
import { answer } from './support/fake-agent.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

const CALLS: { route: CellRoute; path: string; json?: object }[] = [
  { route: processList, path: '/processes' },
  { route: processSignal, path: '/processes/7/signal', json: { signal: 'SIGTERM' } },
  { route: gitClone, path: '/git/clone', json: { url: 'https://host.test/a', path: '/a' } },
  { route: gitStatus, path: '/git/status?path=/a' },
  { route: gitCommit, path: '/git/commit', json: { path: '/a', message: 'm' } },
  { route: browserScreenshot, path: '/browser/screenshot', json: { url: 'http://127.0.0.1/' } },
  { route: browserContent, path: '/browser/content', json: { url: 'http://127.0.0.1/' } },
]
const OF_THE_GUEST: readonly CellCode[] = [
  'not_found',
  'conflict',
  'payload_too_large',
  'validation_failed',
  'rate_limited',
  'internal_error',
  'timeout',
]
const OF_THE_GATEWAY = ['stale_endpoint', 'operation_interrupted']

let bench: Bench
let token: string
before(async () => {
  bench = await openBench()
  await bench.database.superuser
    .updateTable('api_keys')
    .set({ tool_permissions: ['process', 'git', 'browser'] })
    .execute()
  token = await bench.token({ tools: ['process', 'git', 'browser'] })
})
after(() => bench[Symbol.asyncDispose]())

for (const { route, path, json } of CALLS) {
  const call = () => bench.call(route.method, path, { token, ...(json === undefined ? {} : { json }) })

  test(`${route.id}: what the guest refuses is told with its code and reason`, async () => {
    for (const code of OF_THE_GUEST) {
      const declared = route.errors[code]
      if (declared === undefined) continue
      const reasons = declared.filter((each) => each !== null).filter((each) => !OF_THE_GATEWAY.includes(each))
      const bare = declared.length === 0 || declared.includes(null) ? [undefined] : []
      for (const reason of [...bare, ...reasons]) {
        const { status } = CELL_CODES[code]
        bench.agent.script = (_request, response) =>
          answer(response, status, { code, message: 'no', ...(reason === undefined ? {} : { reason }) })
        assert.equal(await refusalOf(await call()), `${status} ${code}${reason === undefined ? '' : `/${reason}`}`)
      }
    }
    bench.agent.script = null
  })

  test(`${route.id}: a connection that breaks leaves open what became of a change, and nothing else`, async () => {
    bench.agent.script = (request) => void request.socket.destroy()
    const changes = route.errors.conflict?.includes('operation_interrupted') === true
    assert.equal(await refusalOf(await call()), changes ? '409 conflict/operation_interrupted' : '503 dependency_unavailable')
    bench.agent.script = null
  })
}

test("a browser's answer gets the gateway's own headers, and its length must be declared and bounded", async () => {
  const send = (headers: Record<string, string>) => {
    bench.agent.script = (_request, response) => void response.writeHead(200, headers).end('abc')
    return bench.call('POST', '/browser/content', { token, json: { url: 'http://127.0.0.1/', format: 'text' } })
  }
  const good = await send({ 'content-length': '3', 'content-type': 'text/html', 'set-cookie': 'a=b', 'content-security-policy': 'none' })
  assert.deepEqual(
    [
      good.status,
      await good.text(),
      ...['content-type', 'content-security-policy', 'set-cookie', 'cache-control'].map((name) => good.headers.get(name)),
    ],
    [200, 'abc', 'text/plain; charset=utf-8', 'sandbox', null, 'no-store'],
  )
  assert.equal(await refusalOf(await send({})), '500 internal_error')
  assert.equal(await refusalOf(await send({ 'content-length': String(1 << 30) })), '500 internal_error')
  bench.agent.script = null
})

test("details of a guest's refusal that do not match their type do not reach the caller", async () => {
  const detailsOf = async (details: object) => {
    bench.agent.script = (_request, response) => answer(response, 413, { code: 'payload_too_large', message: 'no', details })
    const refused = await bench.call('POST', '/browser/content', { token, json: { url: 'http://127.0.0.1/' } })
    assert.equal(refused.status, 413)
    return ((await refused.json()) as { error: { details?: object } }).error.details
  }
  assert.deepEqual(await detailsOf({ max_bytes: 7, of_another_version: [1] }), { max_bytes: 7, of_another_version: [1] })
  for (const max_bytes of ['7', 7.5, null, { a: 1 }, [7]]) assert.equal(await detailsOf({ max_bytes }), undefined)
  assert.deepEqual(await detailsOf({ max_bytes: 'all', reason: 'stale_endpoint', size: 1 }), { size: 1 })
  bench.agent.script = null
})
