import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { createHeldPlaces } from '../../service/api/held-places.ts'
import { operationsGet } from '../../contract/routes/app/operations.ts'
import { me } from '../../contract/routes/app/principals.ts'
import type { Arrival, Principal } from '../../service/http/call.ts'
import { seeder, world, type World } from './support.ts'

let w: World
before(async () => {
  w = await world()
})
after(() => w[Symbol.asyncDispose]())

test('T38: of 3,601 tokens in an hour the last is 429 and says when to come again; other keys mint on', async () => {
  const { key } = await seeder(w.database, w.clock, w.ids).key(w.a.organization_id, w.a.project_id)
  const id = await w.running('flood')
  const mint = () => w.post(`/v1/workspaces/${id}/tool-tokens`, {}, { as: key })
  let minted = 0
  while (minted < LIMITS.tool_tokens_per_hour) {
    const answers = await Promise.all(Array.from({ length: 40 }, mint))
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [201])
    minted += answers.length
  }
  const limited = await mint()
  const seconds = Number(limited.headers.get('retry-after'))
  assert.ok(seconds > 2400 && seconds <= 3600, String(seconds))
  assert.deepEqual(
    [limited.status, limited.body.error.code, limited.body.error.retryable, limited.body.error.details],
    [429, 'rate_limited', true, { retry_after_seconds: seconds }],
  )
  assert.equal((await w.post(`/v1/workspaces/${id}/tool-tokens`)).status, 201)
  const reopened = await w.open('flood', {}, { as: key })
  assert.deepEqual([reopened.status, reopened.body.tool_token], [200, null])
})

test('at the edge’s limit everything is 429 with Retry-After: 60 and request_id edge, until there is room again', async () => {
  await using limited = await world({ edge_requests_per_minute: 6 })
  for (let n = 0; n < 6; n++) assert.equal((await limited.get('/v1/me')).status, 200)
  for (const [path, options] of [
    ['/v1/me', {}],
    ['/v1/client-versions', { as: null }],
    ['/v1/nope', {}],
    ['/v1/me', { as: null, headers: { 'x-request-id': 'mine-mine-mine' } }],
  ] as const) {
    const { status, body, headers } = await limited.get(path, options)
    assert.deepEqual([status, headers.get('retry-after'), headers.get('x-request-id')], [429, '60', 'edge'], path)
    const { message: _message, ...error } = body.error
    assert.deepEqual(error, { code: 'rate_limited', request_id: 'edge', retryable: true, details: { retry_after_seconds: 60 } })
  }
  limited.clock.ahead_ms = 10_000 // a sixth of a minute: one of six
  assert.equal((await limited.get('/v1/me')).status, 200)
  assert.equal((await limited.get('/v1/me')).status, 429)
})

test('T106: of 2,000 calls that ask to be held 1,000 are, the others are 429 at once and nothing is done for them', async () => {
  const opened = await w.open('held')
  const path = `/v1/operations/${opened.body.operation.id}`
  const agent = new Agent({ keepAlive: false, maxSockets: Infinity })
  const headers = { authorization: `Bearer ${w.a.key}`, prefer: 'wait=20' }
  const calls = Array.from({ length: 2000 }, () => answerOf(agent, `${w.base}${path}`, headers))
  const refused: number[] = []
  const first = new Promise<void>((resolve) => {
    for (const call of calls)
      void call.then(({ status }) => {
        if (status === 429) refused.push(status)
        if (refused.length === 1000) resolve()
      })
  })
  await first
  const more = await w.open('held-more', {}, { headers: { prefer: 'wait=1' } })
  assert.deepEqual([more.status, more.body.error.code, more.headers.get('retry-after')], [429, 'rate_limited', '1'])
  assert.deepEqual((await w.get('/v1/workspaces?key_prefix=held-more')).body.data, [])
  assert.equal((await w.get(path)).status, 200) // who asks without a wait is served
  assert.equal((await w.get(path, { as: w.b.key, headers: { prefer: 'wait=1' } })).status, 404) // as is another caller
  await w.cell.succeed(opened.body.operation.id)
  const answers = await Promise.all(calls)
  const held = answers.filter(({ status }) => status === 200)
  assert.equal(held.length, 1000)
  assert.deepEqual([...new Set(held.map(({ applied, state }) => `${applied} ${state}`))], ['wait=20 succeeded'])
  const again = await w.get(path, { headers: { prefer: 'wait=1' } }) // every place is free again
  assert.equal(again.status, 200)
  agent.destroy()
})

test('a place is taken by calls that ask to be held, given back once, and refused of all together with 503', () => {
  const places = createHeldPlaces({ all: 3, per_principal: 2 })
  const arrival = (prefer: string | undefined, route = operationsGet) =>
    ({ route, headers: prefer ? { prefer } : {} }) as unknown as Arrival
  const who = (id: string) => ({ type: 'api_key', id }) as Principal
  const refusal = (id: string) => {
    try {
      places.take(arrival('wait=20'), who(id))?.[Symbol.dispose]()
      return 'held'
    } catch (error) {
      return (error as { code: string }).code
    }
  }
  for (const none of [undefined, 'wait=0', 'wait=x', 'respond-async']) assert.equal(places.take(arrival(none), who('a')), undefined)
  assert.equal(places.take({ ...arrival('wait=20'), route: me }, who('a')), undefined)
  const one = places.take(arrival('wait=20'), who('a'))
  places.take(arrival('wait=20'), who('a'))
  assert.deepEqual([refusal('a'), refusal('b')], ['rate_limited', 'held'])
  places.take(arrival('wait=20'), who('b'))
  assert.deepEqual([refusal('b'), refusal('c')], ['dependency_unavailable', 'dependency_unavailable'])
  one?.[Symbol.dispose]()
  assert.deepEqual([refusal('a'), refusal('c')], ['held', 'held'])
})

async function answerOf(agent: Agent, url: string, headers: Record<string, string>) {
  const sent = request(url, { agent, headers })
  sent.end()
  const [response] = (await once(sent, 'response')) as [import('node:http').IncomingMessage]
  let text = ''
  for await (const chunk of response) text += String(chunk)
  return {
    status: response.statusCode,
    applied: String(response.headers['preference-applied']),
    state: (JSON.parse(text) as { state?: string }).state,
  }
}
