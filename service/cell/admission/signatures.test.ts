import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { createSignatures, type SignatureLimits } from './signatures.ts'

function scripted(limits: SignatureLimits) {
  const signatures = createSignatures(limits)
  const begun: string[] = []
  const ends: (() => void)[] = []
  const check = (token: string, address = 'a') =>
    signatures.check(token, address, () => {
      begun.push(token)
      return new Promise((resolve) => ends.push(() => resolve(true)))
    })
  const endOne = async () => {
    ends.shift()?.()
    await turn()
  }
  return { signatures, begun, check, endOne }
}

const many = (n: number, name: string) => Array.from({ length: n }, (_, i) => `${name}${i}`)

test('concurrent signature checks are bounded, and addresses share them fairly', async () => {
  const { signatures, begun, check, endOne } = scripted({ at_once: 2, waiting_per_address: 100, waiting: 1000 })
  const all = [...many(6, 'a').map((token) => check(token)), check('b0', 'b'), check('b1', 'b'), check('c0', 'c')]
  assert.deepEqual([begun, signatures.waiting()], [['a0', 'a1'], 7])
  while (begun.length < all.length) await endOne()
  assert.deepEqual(begun, ['a0', 'a1', 'a2', 'b0', 'c0', 'a3', 'b1', 'a4', 'a5'])
  for (let n = 0; n < 2; n++) await endOne()
  assert.deepEqual(new Set(await Promise.all(all)), new Set([true]))
  assert.equal(signatures.waiting(), 0)
  void check('later')
  assert.equal(begun.at(-1), 'later', 'all turns are free again')
})

test('an address with too many waiting tokens is refused; one with fewer displaces a token of the address with most', async () => {
  const { signatures, begun, check, endOne } = scripted({ at_once: 1, waiting_per_address: 3, waiting: 6 })
  void check('first')
  const refused: string[] = []
  const send = async (token: string, address: string) => {
    check(token, address).catch((error: unknown) => void refused.push(`${token} ${(error as { code: string }).code}`))
    await turn()
  }
  for (const token of many(3, 'x')) await send(token, '2001:db8::1')
  await send('x3', '2001:db8::2')
  assert.deepEqual(refused.splice(0), ['x3 rate_limited'], 'of one IPv6 network')
  for (const token of many(3, 'y')) await send(token, 'y')
  for (const address of ['b', 'c', 'd', 'e']) await send(address, address)
  assert.deepEqual(refused.splice(0), ['x2 rate_limited', 'y2 rate_limited', 'x1 rate_limited', 'y1 rate_limited'])
  for (const address of ['f', 'y']) await send(`${address}9`, address)
  assert.deepEqual(refused, ['f9 rate_limited', 'y9 rate_limited'], 'all have one place')
  assert.equal(signatures.waiting(), 6)
  for (let n = 0; n < 7; n++) await endOne()
  assert.deepEqual(begun, ['first', 'x0', 'y0', 'b', 'c', 'd', 'e'])
})

test('calls with one token share a check, and a later call has its own', async () => {
  const { begun, check, endOne } = scripted({ at_once: 1, waiting_per_address: 0, waiting: 0 })
  const both = [check('same'), check('same', 'b')]
  await endOne()
  assert.deepEqual(await Promise.all(both), [true, true])
  const again = check('same')
  await endOne()
  assert.equal(await again, true)
  assert.deepEqual(begun, ['same', 'same'])
})

test('a failed check releases its permit', async () => {
  const signatures = createSignatures({ at_once: 1, waiting_per_address: 0, waiting: 0 })
  await assert.rejects(
    signatures.check('a', 'a', () => Promise.reject(new Error('no key'))),
    /no key/,
  )
  assert.equal(await signatures.check('a', 'a', async () => true), true)
})
