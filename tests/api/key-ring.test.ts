import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import pino from 'pino'
import { openKeyRings, type KeyRings } from '../../service/core/keys/ring/ring.ts'
import { API_CHANNELS, openListener } from '../../service/db/listen.ts'
import { freshDatabase, type TestDatabase } from '../support/postgres.ts'
import { until } from '../support/processes.ts'
import { world, type World } from './support.ts'
import { admin as adminOn } from '../support/admin.ts'

const FIRST = '00000000'
const DAY_MS = 24 * 3600 * 1000

let w: World
before(async () => {
  w = await world()
})
after(() => w[Symbol.asyncDispose]())

const admin = (...args: string[]) => adminOn(w.database.url, ...args)
const refused = async (...args: string[]) => {
  const failed = await admin(...args).then(
    () => null,
    (error: unknown) => error as { code: number; stderr: string },
  )
  assert.equal(failed?.code, 1)
  return failed.stderr.trim()
}
const rings = async () => JSON.parse(await admin('keys', 'list', '--json')) as { purpose: string; key_id: string; state: string }[]
const stateOf = async (key_id: string) => (await rings()).find((key) => key.key_id === key_id)?.state
const cursor = async (base?: string) =>
  (await w.get('/v1/workspaces?limit=1', base === undefined ? {} : { base })).body.next_cursor as string
const keyOfCursor = (text: string) => Buffer.from(text, 'base64url').subarray(16, 20).toString('hex')
const follow = async (text: string) => (await w.get(`/v1/workspaces?limit=1&cursor=${text}`)).status
/** After this time every process uses an announced key, and no cursor of the last day needs a superseded one. */
const age = (purpose: 'cursor' | 'idempotency', ms: number) =>
  w.database.superuser
    .updateTable('service_keys')
    .set((e) => ({ created_at: e.fn('to_timestamp', [e(e.fn<number>('date_part', [e.val('epoch'), 'created_at']), '-', ms / 1000)]) }))
    .where('purpose', '=', purpose)
    .execute()

test('after a rotation every process signs cursors by the new key; the old one verifies until it is retired, a day later', async () => {
  await w.open('ring-1')
  await w.open('ring-2')
  const second = await w.second()
  const old = await cursor()
  assert.equal(keyOfCursor(old), FIRST)
  assert.match(await refused('keys', 'retire', 'cursor', FIRST), /rotate first/)
  const key_id = await admin('keys', 'rotate', 'cursor')
  assert.deepEqual([await stateOf(key_id), keyOfCursor(await cursor())], ['announced', FIRST])
  w.clock.ahead_ms = 11_000
  await until('both sign by the new key', 60_000, async () => {
    const made = [await cursor(), await cursor(second)].map(keyOfCursor)
    return made.every((id) => id === key_id)
  })
  const fresh = await cursor(second)
  w.clock.ahead_ms = 0
  assert.deepEqual([await follow(old), await follow(fresh)], [200, 200])
  await age('cursor', 11_000) // the admin command uses the computer's clock
  assert.match(await refused('keys', 'retire', 'cursor', FIRST), /in use until/)
  assert.match(await refused('keys', 'retire', 'cursor', 'ffffffff'), /no key/)
  await age('cursor', DAY_MS + 60_000)
  assert.deepEqual([await stateOf(FIRST), await stateOf(key_id)], ['readable', 'active'])
  await admin('keys', 'retire', 'cursor', FIRST)
  await until(
    'the old key is gone',
    60_000,
    async () => (await follow(old)) === 422 && !existsSync(join(w.keys_dir, `cursor.${FIRST}.key`)),
  )
  assert.equal(await follow(fresh), 200)
})

test('a repeat matches by the key that stored its first call, which cannot be retired while an entry needs it', async () => {
  const headers = { 'idempotency-key': 'before' }
  const open = (key: string, given: Record<string, string>) => w.open(key, {}, { headers: given })
  const first = await open('ring-before', headers)
  const key_id = await admin('keys', 'rotate', 'idempotency')
  w.clock.ahead_ms = 11_000
  await age('idempotency', 11_000) // the admin command uses the computer's clock
  const named = async (key: string) => {
    const { fingerprint } = await w.database.superuser
      .selectFrom('idempotency_entries')
      .select('fingerprint')
      .where('key', '=', key)
      .executeTakeFirstOrThrow()
    return fingerprint.subarray(0, 4).toString('hex')
  }
  assert.equal(await named('before'), FIRST)
  let turn = 0
  await until('the new key signs', 60_000, async () => {
    turn += 1
    await open('ring-after', { 'idempotency-key': `after-${turn}` })
    return (await named(`after-${turn}`)) === key_id
  })
  w.clock.ahead_ms = 0
  const again = await open('ring-before', headers)
  assert.deepEqual([again.status, again.body.workspace.id], [first.status, first.body.workspace.id])
  assert.equal((await open('ring-other', headers)).body.error.code, 'idempotency_mismatch')
  assert.match(await refused('keys', 'retire', 'idempotency', FIRST), /still need/)
  await w.database.superuser
    .updateTable('idempotency_entries')
    .set({ created_at: new Date(Date.now() - 2 * DAY_MS) })
    .execute()
  await admin('keys', 'retire', 'idempotency', FIRST)
  assert.equal(await stateOf(FIRST), undefined)
})

test('keys of tool tokens are listed, and can be retired when their last token has expired', async () => {
  const [kid] = (await rings()).filter(({ purpose }) => purpose === 'tool-token').map(({ key_id }) => key_id)
  assert.ok(kid)
  assert.match(await refused('keys', 'retire', 'tool-token', kid), /rotate first/)
  assert.equal(await admin('keys', 'rotate', 'tool-token'), kid)
  assert.match(await refused('keys', 'retire', 'tool-token', kid), /good until/)
  await w.database.superuser
    .updateTable('signing_keys')
    .set({ retired_at: new Date(Date.now() - DAY_MS) })
    .where('kid', '=', kid)
    .execute()
  await admin('keys', 'retire', 'tool-token', kid)
  assert.equal(await stateOf(kid), undefined)
})

test('a key whose id begins with hyphens is retired by its id, and a surplus argument is refused', async () => {
  for (const kid of ['-hyphen', '--hyphens']) {
    const retired_at = new Date(Date.now() - DAY_MS)
    await w.database.superuser.insertInto('signing_keys').values({ kid, public_jwk: '{}', created_at: retired_at, retired_at }).execute()
    const failed = await admin('keys', 'retire', 'tool-token', kid, '--lots').catch((error: unknown) => error as { stderr: string })
    assert.match(typeof failed === 'string' ? failed : failed.stderr, /--lots is one word too many/)
    assert.equal(await stateOf(kid), 'readable')
    await admin('keys', 'retire', 'tool-token', kid, ...(kid === '-hyphen' ? [] : ['--lost']))
    assert.equal(await stateOf(kid), undefined)
  }
})

interface Folder extends AsyncDisposable {
  database: TestDatabase
  directory: string
  logged: string[]
  open(): Promise<KeyRings>
}

async function folder(): Promise<Folder> {
  const database = await freshDatabase()
  const directory = mkdtempSync(join(tmpdir(), 'berth-ring-'))
  const listener = await openListener(database.options('berth_api'), API_CHANNELS)
  const logged: string[] = []
  const logger = pino({ level: 'error' }, { write: (line: string) => void logged.push(line) })
  const opened: KeyRings[] = []
  return {
    database,
    directory,
    logged,
    async open() {
      const ring = await openKeyRings({ directory, db: database.api, listener, clock: w.clock, logger })
      opened.push(ring)
      return ring
    },
    async [Symbol.asyncDispose]() {
      for (const ring of opened) ring.close()
      await listener.close()
      await database[Symbol.asyncDispose]()
      rmSync(directory, { recursive: true })
    },
  }
}

test('the old single secret becomes the first key of each purpose, with two processes at once; its signatures stay valid', async () => {
  await using at = await folder()
  const secret = randomBytes(32)
  writeFileSync(join(at.directory, 'service-secret'), secret, { mode: 0o600 })
  const [one, other] = await Promise.all([at.open(), at.open()])
  for (const purpose of ['cursor', 'idempotency'] as const) {
    const key = createHmac('sha256', secret).update(purpose).digest()
    const before = createHmac('sha256', key).update('text').digest()
    assert.ok(one[purpose].verifies(before, 32, 'text') && other[purpose].verifies(before, 32, 'text'))
    assert.ok(!one[purpose].verifies(before, 32, 'other text'))
    assert.ok(other[purpose].verifies(one[purpose].sign(16, 'a', Buffer.from('b')), 16, 'ab'))
  }
  assert.ok(!one.cursor.verifies(one.idempotency.sign(16, 'text'), 16, 'text'))
  const names = [`cursor.${FIRST}.key`, `idempotency.${FIRST}.key`]
  assert.deepEqual(readdirSync(at.directory).sort(), names)
  assert.deepEqual(
    names.map((name) => (statSync(join(at.directory, name)).mode & 0o777).toString(8)),
    ['600', '600'],
  )
})

test('a lost key is named in the log and not made again: another key signs', async () => {
  await using at = await folder()
  const signed = (await at.open()).cursor.sign(16, 'text')
  rmSync(join(at.directory, `cursor.${FIRST}.key`))
  const after_loss = await at.open()
  assert.ok(at.logged.some((line) => line.includes(FIRST) && line.includes('missing')))
  assert.ok(!after_loss.cursor.verifies(signed, 16, 'text'))
  const by_another = after_loss.cursor.sign(16, 'text')
  assert.notEqual(by_another.subarray(0, 4).toString('hex'), FIRST)
  assert.ok((await at.open()).cursor.verifies(by_another, 16, 'text'))
})

test('a database that is older than the folder learns the keys that are in the folder', async () => {
  await using at = await folder()
  await at.open()
  writeFileSync(join(at.directory, 'cursor.0a0b0c0d.key'), randomBytes(32), { mode: 0o600 })
  const ring = await at.open()
  const rows = await at.database.superuser.selectFrom('service_keys').select(['purpose', 'key_id', 'check_sha256']).execute()
  assert.deepEqual(rows.map(({ purpose, key_id, check_sha256 }) => `${purpose} ${key_id} ${check_sha256?.length}`).sort(), [
    'cursor 00000000 32',
    'cursor 0a0b0c0d 32',
    'idempotency 00000000 32',
  ])
  assert.ok(ring.cursor.verifies(ring.cursor.sign(16, 'text'), 16, 'text'))
})
