import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { openerOf, openSealingKey, sealerFor, type SealedValue } from './sealed-values.ts'

const directory = mkdtempSync(join(tmpdir(), 'berth-sealed-'))
after(() => rmSync(directory, { recursive: true }))

const SUBJECT = { purpose: 'secret', row: 'secret_versions/a/1' }
const VALUE = Buffer.from('geheim')

test('a value sealed by the public key is opened by the private key, which is stored with mode 0600', async () => {
  const [one, again] = await Promise.all([openSealingKey(directory, 'first'), openSealingKey(directory, 'first')])
  assert.equal(one.key_id, again.key_id)
  assert.deepEqual(readdirSync(directory), ['first.jwk.json'])
  assert.equal(statSync(join(directory, 'first.jwk.json')).mode & 0o777, 0o600)
  const sealer = await sealerFor(one.public_jwk)
  const [value, other] = [await sealer.seal(SUBJECT, VALUE), await sealer.seal(SUBJECT, VALUE)]
  assert.equal(value.key_id, one.key_id)
  assert.notEqual(value.sealed, other.sealed)
  assert.ok(!Buffer.from(value.sealed).includes(VALUE) && !Buffer.from(value.sealed, 'base64url').includes(VALUE))
  assert.deepEqual(await openerOf([again]).open(SUBJECT, value), VALUE)
  const large = Buffer.alloc(65_536, 'x')
  assert.deepEqual(await openerOf([one]).open(SUBJECT, await sealer.seal(SUBJECT, large)), large)
})

test('a sealed value opens only for its purpose and its row', async () => {
  const key = await openSealingKey(directory, 'first')
  const value = await (await sealerFor(key.public_jwk)).seal(SUBJECT, VALUE)
  for (const subject of [
    { ...SUBJECT, row: 'secret_versions/a/2' },
    { ...SUBJECT, purpose: 'callback' },
    { purpose: 'secret","secret_versions/a', row: '1' },
  ])
    // prettier-ignore
    await assert.rejects(openerOf([key]).open(subject, value), /another row/)
})

test('a value that was changed anywhere, its header included, is not opened', async () => {
  const key = await openSealingKey(directory, 'first')
  const value = await (await sealerFor(key.public_jwk)).seal(SUBJECT, VALUE)
  const [header = '', ...rest] = value.sealed.split('.')
  const open = (sealed: string) => openerOf([key]).open({ ...SUBJECT, row: 'another' }, { ...value, sealed })
  const renamed = JSON.parse(Buffer.from(header, 'base64url').toString()) as Record<string, unknown>
  renamed['berth_subject'] = JSON.stringify(['secret', 'another'])
  await assert.rejects(open([Buffer.from(JSON.stringify(renamed)).toString('base64url'), ...rest].join('.')), {
    code: 'ERR_JWE_DECRYPTION_FAILED',
  })
  const changed = (part: number): SealedValue => {
    const parts = value.sealed.split('.')
    const bytes = Buffer.from(parts[part] ?? '', 'base64url')
    bytes[0] = (bytes[0] ?? 0) ^ 1
    parts[part] = bytes.toString('base64url')
    return { ...value, sealed: parts.join('.') }
  }
  for (const part of [2, 3, 4]) await assert.rejects(openerOf([key]).open(SUBJECT, changed(part)), { code: 'ERR_JWE_DECRYPTION_FAILED' })
})

test('an older key still opens its values, an absent key opens nothing, and a sealer refuses a private key', async () => {
  const [before, now] = [await openSealingKey(directory, 'first'), await openSealingKey(directory, 'second')]
  const value = await (await sealerFor(before.public_jwk)).seal(SUBJECT, VALUE)
  assert.deepEqual(await openerOf([now, before]).open(SUBJECT, value), VALUE)
  await assert.rejects(openerOf([now]).open(SUBJECT, value), /not here/)
  await assert.rejects(sealerFor({ ...before.public_jwk, d: 'x' }), /public half alone/)
})
