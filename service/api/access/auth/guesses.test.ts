import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAuthFailureLimiter } from './guesses.ts'

const clock = { now: () => new Date(0), monotonic_ms: () => 0 }
let digests = 0
const fresh = () => String(digests++)
const none = async () => null

test('all addresses of one IPv6 network count as one, and each IPv4 address by itself', async () => {
  const guesses = createAuthFailureLimiter(1, clock)
  const guess = (address: string) =>
    guesses.lookUp(address, fresh(), none).then(
      () => 'looked up',
      (error: unknown) => (error as { code: string }).code,
    )
  assert.equal(await guess('2001:db8:0:1::1'), 'looked up')
  for (const same of ['2001:db8:0:1::2', '2001:db8:0:1:ffff:1:2:3', '2001:db8:0:1::']) assert.equal(await guess(same), 'rate_limited', same)
  assert.equal(await guess('2001:db8::1'), 'looked up')
  for (const same of ['2001:db8:0:0:1::', '2001:db8::2:0:0:1']) assert.equal(await guess(same), 'rate_limited', same)
  for (const other of ['::1', '192.0.2.1', '192.0.2.2', '::ffff:192.0.2.1', '']) assert.equal(await guess(other), 'looked up', other)
})

test('concurrent guesses are limited like sequential ones, and a valid credential costs nothing', async () => {
  const guesses = createAuthFailureLimiter(3, clock)
  const looked = await Promise.allSettled(Array.from({ length: 10 }, () => guesses.lookUp('a', fresh(), none)))
  assert.equal(looked.filter(({ status }) => status === 'fulfilled').length, 3)
  for (let n = 0; n < 10; n++) assert.equal(await guesses.lookUp('b', fresh(), async () => 'good'), 'good')
})

test('a failed look-up counts as no guess', async () => {
  const guesses = createAuthFailureLimiter(1, clock)
  for (let n = 0; n < 3; n++)
    await assert.rejects(
      guesses.lookUp('a', fresh(), () => Promise.reject(new Error('no database'))),
      /no database/,
    )
  assert.equal(await guesses.lookUp('a', fresh(), none), null)
})

test('a credential that is no longer valid counts as a guess', async () => {
  const guesses = createAuthFailureLimiter(1, clock)
  assert.equal(await guesses.lookUp('a', 'key', async () => 'good'), 'good')
  await guesses.lookUp('a', fresh(), none)
  assert.equal(await guesses.lookUp('a', 'key', async () => 'good'), 'good')
  assert.equal(await guesses.lookUp('a', 'key', none), null)
  await assert.rejects(guesses.lookUp('a', 'key', none), { code: 'rate_limited' })
})
