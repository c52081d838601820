import assert from 'node:assert/strict'
import { createHmac, createSign, generateKeyPairSync, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { after, before, test } from 'node:test'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { addSigningKey, type Bench, ENDPOINT, goodClaims, openBench, refusalOf, signToken } from './support/gateway.ts'
import { patience } from '../support/patience.ts'

let bench: Bench
before(async () => {
  bench = await openBench()
  await bench.call('POST', '/exec', { json: { session_id: 's', argv: ['a'] } })
})
after(() => bench[Symbol.asyncDispose]())

const withToken = async (token: string) => bench.call('GET', '/exec/s', { token })
const refused = async (token: string) => {
  const before = bench.agent.seen.length
  const response = await withToken(token)
  assert.equal(bench.agent.seen.length, before, 'nothing may reach the machine')
  return refusalOf(response)
}
const b64 = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
const now = () => Math.floor(bench.clock.now().getTime() / 1000)
const good = { alg: 'ES256', typ: 'berth-tool+jwt', kid: 'key-1' }

test('a good token is served, the second time from the verdict cache', async () => {
  const token = await bench.token()
  assert.equal((await withToken(token)).status, 200)
  assert.equal((await withToken(token)).status, 200)
})

test('alg none in any spelling is 401', async () => {
  for (const alg of ['none', 'nOnE', 'None', '']) {
    assert.equal(await refused(`${b64({ ...good, alg })}.${b64(goodClaims(bench.clock, bench))}.`), '401 unauthenticated')
    assert.equal(await refused(`${b64({ ...good, alg })}.${b64(goodClaims(bench.clock, bench))}.${'A'.repeat(86)}`), '401 unauthenticated')
  }
})

test('HS256 signed with the public key is 401', async () => {
  const { public_jwk } = await bench.database.cell.selectFrom('signing_keys').select('public_jwk').executeTakeFirstOrThrow()
  for (const alg of ['HS256', 'ES256']) {
    const signed = `${b64({ ...good, alg })}.${b64(goodClaims(bench.clock, bench))}`
    const mac = createHmac('sha512', JSON.stringify(public_jwk)).update(signed).digest('base64url')
    assert.equal(await refused(`${signed}.${mac}`), '401 unauthenticated')
  }
})

test('a key that the token contains or links is neither used nor fetched', async (t) => {
  let fetches = 0
  const server = createServer((_request, response) => void response.end(String((fetches += 1)))).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as { port: number }).port}/`
  const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true })
  for (const extra of [{ jwk: await exportJWK(publicKey) }, { jku: url }, { x5u: url }]) {
    const attacker = { kid: 'key-1', private_key: privateKey }
    assert.equal(await refused(await signToken(attacker, goodClaims(bench.clock, bench), extra)), '401 unauthenticated')
    assert.equal(await refused(await bench.token({}, extra)), '401 unauthenticated', 'not even when our key signed it')
  }
  assert.equal(fetches, 0)
})

test('an unknown kid is 401, and a thousand of them query the database once', async () => {
  for (const kid of ['../../../../dev/null', "' or 1", 'k'.repeat(10_000)])
    assert.equal(await refused(await bench.token({}, { kid })), '401 unauthenticated')
  const counted = await queriesOf(async () => {
    const tokens = await Promise.all(Array.from({ length: 1000 }, (_, n) => bench.token({}, { kid: `unknown-${n}` })))
    for (const token of tokens) assert.equal((await withToken(token)).status, 401)
  })
  assert.ok(counted <= 1, `${counted} reloads`)
})

async function queriesOf(act: () => Promise<void>): Promise<number> {
  const { db } = { db: bench.database.cell }
  const original = db.selectFrom.bind(db)
  let count = 0
  db.selectFrom = ((table: never) => {
    if (table === 'signing_keys') count += 1
    return original(table)
  }) as typeof db.selectFrom
  try {
    await act()
  } finally {
    db.selectFrom = original
  }
  return count
}

test('zero, DER, over-long and ES384 signatures are 401', async () => {
  const signed = `${b64(good)}.${b64(goodClaims(bench.clock, bench))}`
  const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const der = createSign('sha256').update(signed).sign(p256.privateKey)
  const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' })
  const es384 = createSign('sha384').update(signed).sign({ key: p384.privateKey, dsaEncoding: 'ieee-p1363' })
  for (const signature of [Buffer.alloc(64), der, Buffer.alloc(65, 1), es384]) {
    assert.equal(await refused(`${signed}.${signature.toString('base64url')}`), '401 unauthenticated')
  }
  const [head, claims, signature = ''] = (await bench.token()).split('.')
  const changed = Buffer.from(signature, 'base64url')
  changed.writeUInt8(changed.readUInt8(63) ^ 1, 63)
  assert.equal(await refused([head, claims, changed.toString('base64url')].join('.')), '401 unauthenticated')
})

test('expired, future, too long, mistyped and missing times are 401', async () => {
  const at = now()
  for (const claims of [
    { iat: at - 100, exp: at - 1 },
    { iat: at + 3600, exp: at + 3700 },
    { iat: at, exp: at + 901 },
    { exp: '9999999999' },
    { exp: undefined },
    { iat: undefined },
    { nbf: at + 100 },
    { iat: at, exp: at - 10 },
  ]) {
    assert.equal(await refused(await bench.token(claims)), '401 unauthenticated', JSON.stringify(claims))
  }
  assert.equal(
    (await withToken(await bench.token({ iat: at + 3, exp: at + 903 }))).status,
    200,
    'clocks of two computers may differ by 5 s',
  )
  assert.equal((await withToken(await bench.token({ iat: at, exp: at + 900 }))).status, 200)
})

test('a token in the verdict cache ends with its exp', async () => {
  const token = await bench.token()
  assert.equal((await withToken(token)).status, 200)
  bench.clock.ahead_ms = 901_000
  assert.equal(await refused(token), '401 unauthenticated')
  bench.clock.ahead_ms = 0
})

test('another audience, issuer or type is 401', async () => {
  assert.equal(await refused(await bench.token({ aud: 'http://other.test' })), '401 unauthenticated')
  assert.equal(await refused(await bench.token({ aud: [ENDPOINT] })), '401 unauthenticated')
  assert.equal(await refused(await bench.token({ iss: 'http://other.test' })), '401 unauthenticated')
  assert.equal(await refused(await bench.token({}, { typ: 'JWT' })), '401 unauthenticated')
  assert.equal(await refused(await bench.token({}, { typ: undefined })), '401 unauthenticated')
})

test('a token for another workspace is 403, and no other spelling of the id is served', async () => {
  const token = await bench.token()
  const at = (id: string) => fetch(`${bench.gateway.address}/v1/workspaces/${id}/exec/s`, { headers: { authorization: `Bearer ${token}` } })
  assert.equal(await refusalOf(await at(randomUUID())), '403 forbidden')
  assert.equal(await refusalOf(await at(bench.workspace_id.toUpperCase())), '403 forbidden')
  assert.equal(await refusalOf(await at(bench.workspace_id.replaceAll('-', '%2d'))), '403 forbidden')
  assert.equal(await refusalOf(await at('not-a-uuid')), '400 bad_request')
  assert.equal((await at(bench.workspace_id)).status, 200)
})

test('an earlier epoch is 409 stale_epoch, and any other than the current is 401', async () => {
  assert.equal(await refused(await bench.token({ epoch: 2 })), '409 stale_epoch')
  for (const epoch of [4, '3', 3.5, -1, 2 ** 53])
    assert.equal(await refused(await bench.token({ epoch })), '401 unauthenticated', String(epoch))
})

test('tools must be a list of known tools that includes the needed one', async () => {
  for (const tools of ['exec', ['EXEC'], [], ['exec', 'exec']])
    assert.equal(await refused(await bench.token({ tools })), '401 unauthenticated')
  const response = await withToken(await bench.token({ tools: ['files'] }))
  const { error } = (await response.json()) as { error: { code: string; details: { tool: string } } }
  assert.deepEqual([response.status, error.code, error.details.tool], [403, 'forbidden', 'exec'])
})

test('a new key is accepted after at most 30 s, without a restart', async () => {
  const signer = await addSigningKey(bench.database, 'key-2')
  const token = await signToken(signer, goodClaims(bench.clock, bench))
  bench.clock.ahead_ms = 31_000
  assert.equal((await withToken(token)).status, 200)
  bench.clock.ahead_ms = 0
})

test('a key that is removed from the table verifies no new token after at most 60 s', async () => {
  const signer = await addSigningKey(bench.database, 'key-3')
  bench.clock.ahead_ms = 100_000
  const fresh = () => signToken(signer, goodClaims(bench.clock, bench))
  assert.equal((await withToken(await fresh())).status, 200)
  await bench.database.superuser.deleteFrom('signing_keys').where('kid', '=', 'key-3').execute()
  bench.clock.ahead_ms = 161_000
  assert.equal(await refused(await fresh()), '401 unauthenticated')
  bench.clock.ahead_ms = 0
})

test('tokens of a retired key are served for 15 minutes, and then the key verifies no token, however new', async () => {
  const signer = await addSigningKey(bench.database, 'key-4')
  const fresh = () => signToken(signer, goodClaims(bench.clock, bench))
  const old = await fresh()
  await eventually(async () => assert.equal((await withToken(old)).status, 200)) // the gateway is notified of the key a moment later
  const retired_at = bench.clock.now()
  await bench.database.superuser.updateTable('signing_keys').set({ retired_at }).where('kid', '=', 'key-4').execute()
  bench.clock.ahead_ms = 890_000
  assert.equal((await withToken(old)).status, 200)
  bench.clock.ahead_ms = 1_021_000 // 15 minutes of the tokens, one of the rotation, one until the next poll
  assert.equal(await refused(await fresh()), '401 unauthenticated')
  bench.clock.ahead_ms = 0
})

test('a token of a just published key is served at once, even after a flood of unknown kids', async () => {
  bench.clock.ahead_ms = 2_000_000
  assert.equal(await refused(await bench.token({}, { kid: 'unknown' })), '401 unauthenticated')
  const token = await signToken(await addSigningKey(bench.database, 'key-5'), goodClaims(bench.clock, bench))
  await eventually(async () => assert.equal((await withToken(token)).status, 200)) // less than the 30 s between two polls
  bench.clock.ahead_ms = 0
})

test('a token issued at the watermark or before is 401 revoked_watermark, and a later one is served', async () => {
  const watermark = now() - 10
  bench.table.set(bench.workspace_id, { tokens_revoked_before: new Date(watermark * 1000) })
  for (const iat of [watermark - 1, watermark]) {
    assert.equal(await refused(await bench.token({ iat, exp: iat + 900 })), '401 unauthenticated/revoked_watermark')
  }
  assert.equal((await withToken(await bench.token({ iat: watermark + 1, exp: watermark + 900 }))).status, 200)
  bench.table.set(bench.workspace_id, { tokens_revoked_before: null })
})

test('new calls are served until the database has been away for 30 s, and refused afterwards', async () => {
  bench.table.lost_ms = 29_999
  assert.equal((await withToken(await bench.token())).status, 200)
  bench.table.lost_ms = 30_000
  assert.equal(await refused(await bench.token()), '503 service_unavailable')
  bench.table.lost_ms = 0
})

test('a token in the query or a cookie is not accepted, and no token is logged', async () => {
  const token = await bench.token()
  const url = `${bench.gateway.address}/v1/workspaces/${bench.workspace_id}/exec/s`
  assert.equal(await refusalOf(await fetch(`${url}?access_token=${token}`)), '401 unauthenticated')
  assert.equal(await refusalOf(await fetch(url, { headers: { cookie: `token=${token}` } })), '401 unauthenticated')
  assert.equal(await refusalOf(await fetch(url, { headers: { authorization: `Basic ${token}` } })), '401 unauthenticated')
  assert.equal((await withToken(token)).status, 200)
  assert.equal(bench.logged.join('').includes(token.slice(-40)), false)
})

test('revoking the API key refuses its live tokens with revoked_api_key', async () => {
  const token = await bench.token()
  assert.equal((await withToken(token)).status, 200)
  await changeKey({ revoked_at: new Date() })
  await eventually(async () => assert.equal(await refusalOf(await withToken(token)), '401 unauthenticated/revoked_api_key'))
  await changeKey({ revoked_at: null })
  await eventually(async () => assert.equal((await withToken(token)).status, 200))
})

test("narrowing the API key's tools refuses its live tokens with revoked_api_key_tools", async () => {
  const token = await bench.token()
  await changeKey({ tool_permissions: ['exec'] })
  await eventually(async () => assert.equal(await refusalOf(await withToken(token)), '401 unauthenticated/revoked_api_key_tools'))
  assert.equal((await withToken(await bench.token({ tools: ['exec'] }))).status, 200)
  await changeKey({ tool_permissions: ['exec', 'files'] })
  await eventually(async () => assert.equal((await withToken(token)).status, 200))
})

test('an expired API key invalidates its tokens, and so does an unknown one', async () => {
  await changeKey({ expires_at: new Date(bench.clock.now().getTime() + 60_000) })
  assert.equal((await withToken(await bench.token())).status, 200)
  bench.clock.ahead_ms = 61_000
  await eventually(async () => assert.equal(await refusalOf(await withToken(await bench.token())), '401 unauthenticated/revoked_api_key'))
  bench.clock.ahead_ms = 0
  await changeKey({ expires_at: null })
  assert.equal(await refused(await bench.token({ sub: bench.cell_id })), '401 unauthenticated/revoked_api_key')
})

test("a person's tokens are valid while their role in the workspace's organization has tools", async () => {
  const db = bench.database.superuser
  const { id } = await member('p@example.com')
  const token = await bench.token({ pty: 'user', sub: id })
  assert.equal((await withToken(token)).status, 200)
  await db.updateTable('memberships').set({ role: 'billing' }).where('person_id', '=', id).execute()
  await eventually(async () => assert.equal(await refusalOf(await withToken(token)), '401 unauthenticated'))
  await db.updateTable('memberships').set({ role: 'admin' }).where('person_id', '=', id).execute()
  await eventually(async () => assert.equal((await withToken(token)).status, 200))
  await db.deleteFrom('memberships').where('person_id', '=', id).execute()
  await eventually(async () => assert.equal(await refusalOf(await withToken(token)), '401 unauthenticated'))
  assert.equal(await refusalOf(await withToken(await bench.token({ pty: 'user', sub: randomUUID() }))), '401 unauthenticated')
})

test("a person's token ends with the session that made it, and those of other sessions go on", async () => {
  const db = bench.database.superuser
  const { id, created_at } = await member('sessions@example.com')
  const [ending, other] = [randomUUID(), randomUUID()]
  const times = { created_at, last_used_at: created_at, expires_at: new Date(created_at.getTime() + 3600_000), revoked_at: null }
  for (const session of [ending, other]) {
    await db
      .insertInto('person_sessions')
      .values({ id: session, person_id: id, token_sha256: Buffer.from(session), ...times })
      .execute()
  }
  const tokenOf = (jti: string) => bench.token({ pty: 'user', sub: id, jti })
  const [one, two, plain] = [
    await tokenOf(`${ending}.${randomUUID()}`),
    await tokenOf(`${other}.${randomUUID()}`),
    await tokenOf(randomUUID()),
  ]
  for (const token of [one, two, plain]) assert.equal((await withToken(token)).status, 200)
  // A step-up continues the session under a new token.
  await db.updateTable('person_sessions').set({ token_sha256: Buffer.from(`${ending}-2`), stepped_up_at: created_at }).where('id', '=', ending).execute() // prettier-ignore
  assert.equal((await withToken(one)).status, 200)
  await db.updateTable('person_sessions').set({ revoked_at: bench.clock.now() }).where('id', '=', ending).execute()
  await eventually(async () => assert.equal(await refusalOf(await withToken(one)), '401 unauthenticated'))
  for (const token of [two, plain]) assert.equal((await withToken(token)).status, 200)
})

test('a signature by another key than the named one is 401', async () => {
  const { privateKey } = await generateKeyPair('ES256')
  const token = await new SignJWT(goodClaims(bench.clock, bench)).setProtectedHeader(good).sign(privateKey)
  assert.equal(await refused(token), '401 unauthenticated')
})

async function changeKey(change: object): Promise<void> {
  await bench.database.superuser.updateTable('api_keys').set(change).where('id', '=', bench.api_key_id).execute()
}

/** The specification allows 30 s; in practice a NOTIFY takes only a moment. */
async function eventually(holds: () => Promise<void>): Promise<void> {
  const deadline = Date.now() + patience(25_000)
  for (;;) {
    try {
      return await holds()
    } catch (error) {
      if (Date.now() > deadline) throw error
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
}

async function member(email: string): Promise<{ id: string; created_at: Date }> {
  const db = bench.database.superuser
  const { organization_id } = await db
    .selectFrom('workspaces')
    .select('organization_id')
    .where('id', '=', bench.workspace_id)
    .executeTakeFirstOrThrow()
  bench.table.set(bench.workspace_id, { organization_id })
  const [id, created_at] = [randomUUID(), bench.clock.now()]
  await db.insertInto('people').values({ id, email, display_name: null, created_at }).execute()
  await db.insertInto('memberships').values({ organization_id, person_id: id, role: 'member', created_at }).execute()
  return { id, created_at }
}
