import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { test } from 'node:test'
import { createSignatures } from '../../service/cell/admission/signatures.ts'
import { until } from '../support/processes.ts'
import { openBench } from './support/gateway.ts'

const FORGED = 2000
const WAITING = 500
const AT_ONCE = 2

test('forged tokens of one address delay neither known tokens nor other addresses', async (t) => {
  const signatures = createSignatures({ at_once: AT_ONCE, waiting_per_address: WAITING, waiting: 4 * WAITING })
  await using bench = await openBench({ signatures })
  const { checked, openDoor } = holdSignatures(t)
  const call = async (address: string, token: string) => {
    const options = { localAddress: address, agent: false, headers: { authorization: `Bearer ${token}` } }
    const sent = request(`${bench.gateway.address}/v1/workspaces/${bench.workspace_id}/exec/none`, options).end()
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    response.resume()
    return { status: response.statusCode, retry_after: response.headers['retry-after'] }
  }
  const known = await bench.token()
  const first = call('127.0.0.1', known)
  await until('its signature is being checked', 60_000, () => checked.length === 1)
  openDoor(1)
  assert.equal((await first).status, 404, 'there is no such session')

  const forged = forgeTokens(FORGED, await bench.token())
  const flood: Awaited<ReturnType<typeof call>>[] = []
  const all = Promise.allSettled(forged.map(async (token) => void flood.push(await call('127.0.0.1', token))))
  await until('all forged tokens have come', 60_000, () => checked.length - 1 + signatures.waiting() + flood.length === FORGED)
  assert.equal(checked.length, 1 + AT_ONCE)
  assert.equal(flood.length, FORGED - WAITING - AT_ONCE)
  assert.deepEqual(new Set(flood.map(({ status, retry_after }) => `${status} ${retry_after}`)), new Set(['429 1']))
  assert.equal((await call('127.0.0.1', known)).status, 404)
  assert.equal(checked.length, 1 + AT_ONCE, 'whose verdict is known waits for no signature')

  const fresh = await bench.token()
  const served = call('127.0.0.2', fresh)
  await until('it waits', 60_000, () => signatures.waiting() === WAITING + 1)
  openDoor(Number.POSITIVE_INFINITY)
  assert.equal((await served).status, 404)
  const its_place = checked.indexOf(fresh.slice(0, fresh.lastIndexOf('.')))
  assert.ok(its_place <= 1 + AT_ONCE + 1, `it was the ${its_place}th`)
  await all
  assert.equal(flood.filter(({ status }) => status === 401).length, WAITING + AT_ONCE)
})

/** Each check of a signature waits until the test lets it continue. */
function holdSignatures(t: { after(end: () => void): void }) {
  const { subtle } = crypto
  const verify = subtle.verify.bind(subtle)
  const checked: string[] = []
  const held: (() => void)[] = []
  let open = 0
  subtle.verify = async (algorithm, key, signature, data) => {
    checked.push(Buffer.from(data as Uint8Array).toString('latin1'))
    if (open > 0) open -= 1
    else await new Promise<void>((resolve) => held.push(resolve))
    return verify(algorithm, key, signature, data)
  }
  t.after(() => Reflect.deleteProperty(subtle, 'verify'))
  const openDoor = (times: number) => {
    const through = held.splice(0, times)
    open += times - through.length
    for (const go of through) go()
  }
  return { checked, openDoor }
}

function forgeTokens(count: number, good: string): string[] {
  const [header = '', payload = '', signature = ''] = good.split('.')
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object
  return Array.from({ length: count }, () => {
    const forged = Buffer.from(JSON.stringify({ ...claims, jti: crypto.randomUUID() })).toString('base64url')
    return `${header}.${forged}.${signature}`
  })
}
