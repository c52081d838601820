import assert from 'node:assert/strict'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { makeAuthority } from './certificate.ts'

test("an authority's certificate is one that signs certificates, with the key that is kept beside it", () => {
  for (const now of ['2026-11-24T10:00:00Z', '2019-12-31T23:59:59Z'].map((text) => new Date(text))) {
    const { certificate, private_key } = makeAuthority('Berth authority 1', now)
    const read = new X509Certificate(certificate)
    assert.equal(read.ca, true)
    assert.equal(read.subject, 'CN=Berth authority 1')
    assert.equal(read.issuer, read.subject)
    assert.equal(read.checkPrivateKey(createPrivateKey({ key: private_key, format: 'der', type: 'pkcs8' })), true)
    assert.equal(read.verify(read.publicKey), true)
    assert.ok(new Date(read.validFrom) < now)
    assert.equal(new Date(read.validTo).getUTCFullYear(), now.getUTCFullYear() + 30)
  }
})

test('no two authorities have one serial number or one key', () => {
  const [one, other] = [makeAuthority('a', new Date()), makeAuthority('a', new Date())].map(
    ({ certificate }) => new X509Certificate(certificate),
  )
  assert.notEqual(one?.serialNumber, other?.serialNumber)
  assert.notEqual(one?.fingerprint256, other?.fingerprint256)
})
