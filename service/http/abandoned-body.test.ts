import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { test } from 'node:test'
import pino from 'pino'
import Type from 'typebox'
import { readers } from '../../contract/access.ts'
import { appRoute } from '../../contract/route.ts'
import { systemClock } from '../lib/clock.ts'
import { fail } from '../lib/fail.ts'
import { createIds } from '../lib/ids.ts'
import type { Who } from './call.ts'
import { bind } from '../../tests/support/bind.ts'
import { createServer } from './pipeline.ts'

const who: Who = { type: 'api_key', id: 'k', key_id: 'k', organization_id: 'o', project_id: 'p', tool_permissions: [] }
const put = appRoute({
  id: 'bytes.put',
  method: 'PUT',
  path: '/v1/bytes',
  summary: 'Takes three bytes',
  access: readers('self'),
  body: 'bytes',
  answers: { 200: { schema: Type.Object({}), description: 'Taken' } },
  errors: {},
})

// The log line of a refusal names the caller's address. It must not be read from a request whose body was abandoned, because that request
// has no socket.
test('a handler that abandons a body and refuses does not end the process, and its refusal is logged', async () => {
  const lines: string[] = []
  const server = createServer({
    ...{ surface: 'app' as const, deps: {}, clock: systemClock, ids: createIds(systemClock), authenticate: async () => who },
    logger: pino({ level: 'info' }, { write: (line: string) => void lines.push(line) }),
    routes: [
      bind(put, async ({ body_stream }) => {
        let bytes = 0
        for await (const chunk of body_stream as AsyncIterable<Buffer>) {
          bytes += chunk.length
          if (bytes > 3) throw fail('payload_too_large', null, 'Too much', { details: { max_bytes: 3 } })
        }
        return { status: 200, body: {} }
      }),
    ],
  })
  const url = await server.listen({ host: '127.0.0.1', port: 0 })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const send = (body: string) =>
    new Promise<number | string>((resolve) => {
      const asked = request(`${url}/v1/bytes`, { method: 'PUT', agent, headers: { 'content-type': 'application/octet-stream' } })
      asked.on('response', (response) => response.resume().on('close', () => resolve(response.statusCode ?? 0)))
      asked.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
      asked.end(body)
    })
  assert.equal(await send('abc'), 200)
  for (let time = 0; time < 5; time += 1) assert.ok([413, 'ECONNRESET', 'EPIPE'].includes(await send('abcdef'.repeat(20_000))))
  assert.equal(await send('abcd'), 413)
  assert.equal(await send('abc'), 200)
  agent.destroy()
  await server.close()
  const refusals = lines.map((line) => JSON.parse(line) as { status?: number }).filter(({ status }) => status === 413)
  assert.ok(refusals.length > 0, lines.join(''))
})
