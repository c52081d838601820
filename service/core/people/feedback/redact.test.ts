import assert from 'node:assert/strict'
import { test } from 'node:test'
import { redact, REDACTED } from './redact.ts'

const PEM = `-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIBkg\nabc=\n-----END EC PRIVATE KEY-----`
const SECRETS = [
  `sfk_0123456789abcdef_${'a1'.repeat(32)}`, `sfu_${'aB3'.repeat(14)}x`, 'sfp_abcdefgh', 'sfcb_abcdefgh', PEM, PEM.slice(0, 60),
  'eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJhIn0.c2lnbmF0dXJl', 'ghp_0123456789abcdefghijABCDEFGHIJ', 'xoxb-123456789012-abcdef', 'sk-proj-abcdefghijkl',
  'AKIAIOSFODNN7EXAMPLE', 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEK1y', '0123456789abcdef0123456789abcdef', 'Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MGFiY2RlZg==',
] // prettier-ignore

for (const [n, secret] of SECRETS.entries()) {
  test(`what is shaped like a key, a token or a private key goes: ${n}`, () => {
    for (const text of [secret, `it said ${secret} and failed`, `{"x":"${secret}"}`, `(${secret})`]) {
      const kept = redact(text)
      assert.ok(kept.includes(REDACTED), kept)
      for (const part of secret.split(/[\s/.]/).filter((word) => word.length > 8 && !/BEGIN|PRIVATE|KEY---/.test(word))) {
        assert.ok(!kept.includes(part), `${part} is left in ${kept}`)
      }
      assert.equal(redact(kept), kept)
    }
  })
}

test('a value after a word like "password" is redacted, and the word stays', () => {
  assert.equal(redact('Authorization: Bearer abcdefgh'), `Authorization: ${REDACTED} ${REDACTED}`)
  assert.equal(redact('password=hunter2 and more'), `password=${REDACTED} and more`)
  assert.equal(redact('"api_key": "short1"'), `"api_key": "${REDACTED}"`)
  assert.equal(redact('mytool --token abc123 run'), `mytool --token ${REDACTED} run`)
  assert.equal(redact('git clone https://ada:hunter2@git.test/x.git'), `git clone https://ada:${REDACTED}@git.test/x.git`)
})

test('ordinary feedback text is kept unchanged', () => {
  const text =
    'POST /v1/workspaces/01920000-0000-7000-8000-000000000001/exec answered 409 conflict/operation_in_progress, the token expired in /home/user/projects/analytical-engine/src/main.ts'
  assert.equal(redact(text), text)
  assert.equal(redact('my password was refused: why?'), 'my password was refused: why?')
})

test('redaction stays fast on texts made to be slow', () => {
  for (const text of ['-----BEGIN '.repeat(700), 'token='.repeat(1300), 'a'.repeat(8000), 'eyJ'.repeat(2600), '://:'.repeat(2000)]) {
    const began = performance.now()
    redact(text)
    assert.ok(performance.now() - began < 1000)
  }
})
