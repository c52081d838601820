import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Call } from '../../http/call.ts'
import { createTenantLimit } from './turns.ts'

const caller = (organization_id: string, signal = new AbortController().signal) =>
  ({ who: { type: 'api_key', id: organization_id, organization_id }, signal }) as unknown as Pick<Call, 'who' | 'signal'>

function works(turns: ReturnType<typeof createTenantLimit>) {
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const begin = (name: string, call = caller('a')) =>
    turns.run(call, () => {
      begun.push(name)
      return new Promise<void>((resolve) => ends.set(name, resolve))
    })
  const end = async (name: string) => {
    ends.get(name)?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
  return { begin, begun, end }
}

test("a tenant's changes run up to the limit, the rest in order, and another tenant does not wait", async () => {
  const { begin, begun, end } = works(createTenantLimit({ at_once: 2, waiting: 10, wait_ms: 60_000 }))
  const all = ['1', '2', '3', '4', '5'].map((name) => begin(name))
  const other = begin('b', caller('b'))
  assert.deepEqual(begun, ['1', '2', 'b'])
  await end('2')
  assert.deepEqual(begun, ['1', '2', 'b', '3'])
  await Promise.all([end('1'), end('3')])
  assert.deepEqual(begun, ['1', '2', 'b', '3', '4', '5'])
  await Promise.all([end('4'), end('5'), end('b')])
  await Promise.all([...all, other])
  const again = ['6', '7', '8'].map((name) => begin(name)) // all permits were released
  assert.deepEqual(begun.slice(6), ['6', '7'])
  for (const name of ['6', '7', '8']) await end(name)
  await Promise.all(again)
})

test('changes beyond the queue or the wait limit get 429, and a disconnected caller leaves the queue', async () => {
  const turns = createTenantLimit({ at_once: 1, waiting: 2, wait_ms: 30 })
  const { begin, begun, end } = works(turns)
  const first = begin('1')
  const gone = new AbortController()
  const left = assert.rejects(begin('left', caller('a', gone.signal)), { name: 'AbortError' })
  const late = assert.rejects(begin('late'), { code: 'rate_limited' })
  await assert.rejects(begin('beyond'), { code: 'rate_limited' })
  gone.abort()
  await Promise.all([left, late])
  const next = begin('next')
  await end('1')
  await end('next')
  await Promise.all([first, next])
  assert.deepEqual(begun, ['1', 'next'])
})

test('failed work releases its permit', async () => {
  const turns = createTenantLimit({ at_once: 1, waiting: 2, wait_ms: 60_000 })
  const broken = turns.run(caller('a'), () => Promise.reject(new Error('broken')))
  const next = turns.run(caller('a'), async () => 'next')
  await assert.rejects(broken, /broken/)
  assert.equal(await next, 'next')
})
