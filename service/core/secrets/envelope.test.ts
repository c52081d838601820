import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { openerOf, openSealingKey, sealerFor, type Opener, type Sealer } from '../keys/ring/sealed-values.ts'
import { openSecret, rewrap, sealSecret, type SealedSecret } from './envelope.ts'

const directory = mkdtempSync(join(tmpdir(), 'berth-envelope-'))
after(() => rmSync(directory, { recursive: true }))

const OF = { organization_id: 'o', secret_id: 's', version: 1 }
let sealer: Sealer
let opener: Opener
before(async () => {
  const key = await openSealingKey(directory, 'one')
  sealer = await sealerFor(key.public_jwk)
  opener = openerOf([key])
})

test('a value with one flipped bit is refused, and never opens as another value', async () => {
  const sealed = await sealSecret(sealer, OF, 'geheim')
  assert.equal(await openSecret(opener, OF, sealed), 'geheim')
  for (let bit = 0; bit < sealed.ciphertext.length * 8; bit++) {
    const ciphertext = Buffer.from(sealed.ciphertext)
    ciphertext[bit >> 3] = (ciphertext[bit >> 3] ?? 0) ^ (1 << (bit & 7))
    await assert.rejects(openSecret(opener, OF, { ...sealed, ciphertext }), `bit ${bit}`)
  }
  for (const length of [0, 12, 28, sealed.ciphertext.length - 1]) {
    await assert.rejects(openSecret(opener, OF, { ...sealed, ciphertext: sealed.ciphertext.subarray(0, length) }), `${length} bytes`)
  }
})

test('a ciphertext or a data key of another organization, secret or version is refused', async () => {
  const sealed = await sealSecret(sealer, OF, 'mine')
  for (const other of [
    { ...OF, organization_id: 'x' },
    { ...OF, secret_id: 'x' },
    { ...OF, version: 2 },
  ]) {
    const theirs = await sealSecret(sealer, other, 'theirs')
    const swapped: SealedSecret[] = [sealed, { ...theirs, ciphertext: sealed.ciphertext }, { ...theirs, wrapped_key: sealed.wrapped_key }]
    for (const one of swapped) await assert.rejects(openSecret(opener, other, one))
    assert.equal(await openSecret(opener, other, theirs), 'theirs')
  }
})

test('no two seals share a data key or a nonce, even for the same value', async () => {
  const seen = new Set<string>()
  const count = 2000
  for (let n = 0; n < count; n++) {
    const { ciphertext, wrapped_key } = await sealSecret(sealer, OF, 'same')
    const data_key = await opener.open(
      { purpose: 'data_key', row: 'secret_versions/o/s/1' },
      { key_id: keyIdOf(wrapped_key), sealed: wrapped_key },
    )
    seen.add(ciphertext.subarray(0, 12).toString('hex')).add(data_key.toString('hex'))
  }
  assert.equal(seen.size, 2 * count)
})

function keyIdOf(jwe: string): string {
  return (JSON.parse(Buffer.from(jwe.split('.')[0] ?? '', 'base64url').toString()) as { kid: string }).kid
}

test('a data key is resealed for another key without its ciphertext, and the older key no longer opens it', async () => {
  const next = await openSealingKey(directory, 'two')
  const before = await sealSecret(sealer, OF, 'stays')
  const after = { ...before, ...(await rewrap(opener, await sealerFor(next.public_jwk), OF, before)) }
  assert.deepEqual([after.ciphertext, after.key_id], [before.ciphertext, next.key_id])
  assert.equal(await openSecret(openerOf([next]), OF, after), 'stays')
  await assert.rejects(openSecret(opener, OF, after), /not here/)
  await assert.rejects(rewrap(opener, sealer, { ...OF, version: 2 }, before), /another row/)
})
