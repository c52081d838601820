import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { fail } from '../lib/fail.ts'
import { createIds } from '../lib/ids.ts'
import { systemClock } from '../lib/clock.ts'
import { collectingLog } from '../../tests/support/logged.ts'
import { bare } from '../../tests/support/pipeline-routes.ts'
import { bind } from '../../tests/support/bind.ts'
import { createServer } from './pipeline.ts'

const SECRET = 'Zm9vYmFyYmF6cXV4'
const CREDENTIALS = [
  `sfk_0123456789abcdef_${SECRET}`,
  `sfu_${SECRET}${SECRET}`,
  `sfcb_${SECRET}`,
  `eyJhbGciOiJFUzI1NiJ9.${SECRET}.${SECRET}`,
]

test('no log line contains a credential that a caller put into a path, a query or a header', async () => {
  const lines: string[] = []
  const server = createServer({
    ...{ surface: 'app', deps: {}, clock: systemClock, ids: createIds(systemClock), logger: collectingLog(lines) },
    routes: [bind(bare, async () => ({ status: 200, body: { ok: true } }))],
    authenticate: async () => Promise.reject(fail('unauthenticated', null, 'No')),
  })
  const base = await server.listen({ host: '127.0.0.1', port: 0 })
  for (const credential of CREDENTIALS)
    for (const path of [`/v1/workspaces/${credential}`, `/v1/nowhere?key=${credential}`, `/v1/things/${credential}/x`])
      await (await fetch(`${base}${path}`, { headers: { authorization: `Bearer ${credential}`, cookie: credential } })).arrayBuffer()
  await server.close()
  const text = lines.join('')
  assert.deepEqual(
    [lines.length >= CREDENTIALS.length * 3, text.includes(SECRET), text.includes('/v1/workspaces/sfk_…')],
    [true, false, true],
  )
})

test('an unauthenticated caller fills a bounded part of the log, with short paths, and left-out lines are counted', async () => {
  const lines: string[] = []
  let now_ms = 0
  const clock = { now: () => new Date(now_ms), monotonic_ms: () => now_ms }
  const server = createServer({
    ...{ surface: 'app', deps: {}, clock, ids: createIds(systemClock), logger: collectingLog(lines) },
    routes: [bind(bare, async () => ({ status: 200, body: { ok: true } }))],
    authenticate: async () => Promise.reject(fail('unauthenticated', null, 'No')),
  })
  const base = await server.listen({ host: '127.0.0.1', port: 0 })
  const ask = async () => (await fetch(`${base}/v1/bare/${'x'.repeat(10_000)}`)).arrayBuffer()
  for (let i = 0; i < 2 * LIMITS.log.source_per_minute; i++) await ask()
  now_ms += 60_000
  await ask()
  await server.close()
  assert.equal(lines.length, LIMITS.log.source_per_minute + 1)
  assert.ok(Math.max(...lines.map((line) => line.length)) < 1000)
  assert.equal((JSON.parse(lines.at(-1) ?? '') as { left_out: number }).left_out, LIMITS.log.source_per_minute)
})
