import assert from 'node:assert/strict'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { makeAuthority, makeServerCertificate } from './certificate.ts'

test("an authority's certificate is a CA certificate and matches the returned private key", () => {
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

test('two authorities never share a serial number or a key', () => {
  const [one, other] = [makeAuthority('a', new Date()), makeAuthority('a', new Date())].map(
    ({ certificate }) => new X509Certificate(certificate),
  )
  assert.notEqual(one?.serialNumber, other?.serialNumber)
  assert.notEqual(one?.fingerprint256, other?.fingerprint256)
})

test('a server certificate is signed by its authority, is valid only for its names, and is no CA', () => {
  const now = new Date()
  const authority = makeAuthority('Berth ports', now)
  const { certificate, private_key } = makeServerCertificate(authority, ['*.ports.localhost', 'ports.localhost'], now)
  const [read, by] = [new X509Certificate(certificate), new X509Certificate(authority.certificate)]
  assert.deepEqual([read.ca, read.issuer, read.checkIssued(by), read.verify(by.publicKey)], [false, 'CN=Berth ports', true, true])
  assert.equal(read.checkPrivateKey(createPrivateKey({ key: private_key, format: 'der', type: 'pkcs8' })), true)
  const found = ['3000-abc.ports.localhost', 'ports.localhost', 'a.b.ports.localhost', 'other.localhost'].map((name) =>
    read.checkHost(name),
  )
  assert.deepEqual(found, ['*.ports.localhost', 'ports.localhost', undefined, undefined])
})
