import assert from 'node:assert/strict'
import { test } from 'node:test'
import { signalServer, startOwnServer } from '../support/postgres.ts'
import { until } from '../support/processes.ts'
import { openShop } from './payment-support.ts'
import { world } from './support.ts'

/** The promise is two seconds; this suits a busy computer. Without the service's limit a call is never answered. */
const ANSWERED_MS = 10_000

// Own server: that of other tests must not stop.
const server = await startOwnServer()

test('calls are 503 within about two seconds while the database is stopped, and succeed when it continues', async () => {
  await using w = await world()
  const id = await w.running('outage')
  signalServer(server, 'SIGSTOP')
  try {
    for (const call of [
      () => w.get(`/v1/workspaces/${id}`),
      () => w.post(`/v1/workspaces/${id}/suspend`),
      () => w.get('/v1/organizations'),
    ]) {
      const started_ms = performance.now()
      const answer = await call()
      assert.deepEqual([answer.status, answer.body.error.code, answer.body.error.retryable], [503, 'dependency_unavailable', true])
      assert.ok(performance.now() - started_ms < ANSWERED_MS, `${performance.now() - started_ms} ms`)
    }
    assert.equal((await w.get('/v1/client-versions')).status, 200)
  } finally {
    signalServer(server, 'SIGCONT')
  }
  await until('it serves again', 60_000, async () => {
    const { status, body } = await w.get(`/v1/workspaces/${id}`)
    return status === 200 && body.observed_state === 'running'
  })
})

test('a payment event that cannot be stored is 503, so that the payment service sends it again', async () => {
  await using shop = await openShop()
  await shop.buy()
  const event = shop.double.pay(shop.page())
  signalServer(server, 'SIGSTOP')
  try {
    const { status, body } = await shop.tell(event)
    assert.deepEqual([status, body.error.code], [503, 'dependency_unavailable'])
  } finally {
    signalServer(server, 'SIGCONT')
  }
  await until('it is kept', 60_000, async () => (await shop.tell(event)).status === 200)
})
