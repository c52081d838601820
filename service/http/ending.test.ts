import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fail } from '../lib/fail.ts'
import { createIds } from '../lib/ids.ts'
import { systemClock } from '../lib/clock.ts'
import { collectingLog } from '../../tests/support/logged.ts'
import { bare } from '../../tests/support/pipeline-routes.ts'
import { bind } from './call.ts'
import { createServer } from './pipeline.ts'

const SECRET = 'Zm9vYmFyYmF6cXV4'
const CREDENTIALS = [
  `sfk_0123456789abcdef_${SECRET}`,
  `sfu_${SECRET}${SECRET}`,
  `sfcb_${SECRET}`,
  `eyJhbGciOiJFUzI1NiJ9.${SECRET}.${SECRET}`,
]

test('a credential that a caller put into a path, a query or a header is in no line of the log', async () => {
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
