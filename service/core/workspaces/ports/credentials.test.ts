import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CREDENTIAL_KINDS, type CredentialKind } from '../../../../contract/internal/ports.ts'
import { cookieOf, digestOf, newCredential } from './credentials.ts'

const made: Record<CredentialKind, string> = {
  token: newCredential('token'),
  link: newCredential('link'),
  cookie: cookieOf(newCredential('link')),
  callback: newCredential('callback'),
}

test('a credential has a digest as its own kind only', () => {
  for (const kind of CREDENTIAL_KINDS) {
    for (const other of CREDENTIAL_KINDS) assert.equal(digestOf(other, made[kind]) !== null, other === kind, `${kind} as ${other}`)
  }
})

test('a text of another length or alphabet is no credential', () => {
  const { token } = made
  for (const value of [
    '',
    'sfp_',
    `${token}A`,
    token.slice(0, -1),
    `${token.slice(0, -1)}=`,
    ` ${token}`,
    `${token}\n`,
    token.toUpperCase(),
  ]) {
    assert.equal(digestOf('token', value), null, value)
  }
})

test('each link has its own cookie, which does not contain the link', () => {
  const link = newCredential('link')
  assert.equal(cookieOf(link), cookieOf(link))
  assert.notEqual(cookieOf(link), cookieOf(newCredential('link')))
  assert.ok(!cookieOf(link).includes(link.slice('sfl_'.length)))
})
