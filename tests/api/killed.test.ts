import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import { sql } from 'kysely'
import { insertPart, claimExport } from '../../service/api/records/exports/store.ts'
import { startApiProcess, type ApiProcess } from '../support/api-process.ts'
import { openMailbox, type Mailbox } from '../support/mailbox.ts'
import { until } from '../support/processes.ts'
import { PASSPHRASE } from './auth-support.ts'
import { seeder, world, type World } from './support.ts'
import { patience } from '../support/patience.ts'

const TIMEOUT = { timeout: patience(180_000) }

let w: World
let box: Mailbox
before(async () => {
  w = await world()
})
after(() => w[Symbol.asyncDispose]())
beforeEach(async () => {
  box = await openMailbox()
})
afterEach(() => box[Symbol.asyncDispose]())

const mail = () => ({ smtp_url: box.url, from: 'Berth <berth@mail.test>', directory: '/nonexistent' })
const db = () => w.database.superuser
const mailOf = (email: string) => db().selectFrom('mails').selectAll().where('email', '=', email).executeTakeFirst()
const register = (api: ApiProcess, email: string) =>
  w.post('/v1/auth/register', { email, password: PASSPHRASE }, { as: null, base: api.base })
const letters = (email: string) => box.mails.filter(({ to }) => to?.some(({ address }) => address === email) === true)

test('an api that is killed before a change commits leaves no mail; the repeated call sends it once', TIMEOUT, async () => {
  const email = 'uncommitted@example.com'
  {
    await using api = await startApiProcess(w, { mail: mail(), killed_at: 'change.C2' })
    await assert.rejects(register(api, email))
    assert.equal(await api.ended, 'SIGKILL')
  }
  assert.equal(await mailOf(email), undefined)
  await using next = await startApiProcess(w, { mail: mail() })
  assert.equal((await register(next, email)).status, 202)
  await until('it is sent', 60_000, async () => ((await mailOf(email))?.sent_at ?? null) !== null)
  assert.equal(letters(email).length, 1)
})

for (const [killed_at, sent_before, sent_in_all] of [
  ['mail.M1', 0, 1],
  ['mail.M2', 1, 2],
] as const) {
  test(
    `of an api that is killed at ${killed_at} the mail of a committed change is sent by the next one, with one link`,
    TIMEOUT,
    async () => {
      const email = `${killed_at.toLowerCase()}@example.com`
      {
        await using api = await startApiProcess(w, { mail: mail(), killed_at })
        assert.equal((await register(api, email)).status, 202)
        assert.equal(await api.ended, 'SIGKILL')
      }
      assert.deepEqual([(await mailOf(email))?.sent_at, letters(email).length], [null, sent_before])
      // The killed process's claim has expired.
      await db().updateTable('mails').set({ next_try_at: new Date() }).where('email', '=', email).execute()
      await using next = await startApiProcess(w, { mail: mail() })
      await until('it is sent', 60_000, async () => ((await mailOf(email))?.sent_at ?? null) !== null)
      const tokens = letters(email).map(({ text }) => /#token=(\S+)/.exec(text ?? '')?.[1])
      assert.deepEqual([tokens.length, new Set(tokens).size], [sent_in_all, 1])
      assert.equal((await w.post('/v1/auth/verify-email', { token: tokens[0] }, { as: null, base: next.base })).status, 204)
    },
  )
}

async function largeOrganization(slug: string): Promise<{ path: string; token: string }> {
  const seeds = seeder(w.database, w.clock, w.ids)
  const { organization_id } = await seeds.tenant(slug, await seeds.plan(slug))
  const { token } = await seeds.person(organization_id, 'owner', { stepped_up: true })
  for (let n = 0; n < 60; n++) await seeds.grant(organization_id, { note: randomBytes(50_000).toString('hex') })
  return { path: `/v1/organizations/${organization_id}/exports`, token }
}

const LOCK = 23
async function stoppedAtSecondPart(work: () => Promise<void>): Promise<void> {
  await sql`create or replace function wait_for_test() returns trigger language plpgsql as $$
    begin perform pg_advisory_xact_lock(${sql.lit(LOCK)}); return new; end $$`.execute(db())
  await sql`create trigger waits before insert on export_parts for each row when (new.number = 1) execute function wait_for_test()`.execute(
    db(),
  )
  await db().connection().execute(async (holder) => {
    await sql`select pg_advisory_lock(${sql.lit(LOCK)})`.execute(holder)
    await work()
    await sql`select pg_advisory_unlock(${sql.lit(LOCK)})`.execute(holder)
  }) // prettier-ignore
  // Once the killed process's connections are gone, its last statement has either been executed or refused.
  await until('its connections are gone', 60_000, async () => {
    const { rows } = await sql<{ n: number }>`select count(*)::int as n from pg_stat_activity
      where application_name = 'berth-api' and datname = current_database()`.execute(db())
    return rows[0]?.n === 0
  })
  await sql`drop trigger waits on export_parts`.execute(db())
}

const parts = (id: string) =>
  db().selectFrom('export_parts').select(['attempt', 'number']).where('export_id', '=', id).orderBy('attempt').orderBy('number').execute()

async function assertMadeByTheNext(id: string, { path, token }: { path: string; token: string }): Promise<void> {
  assert.equal((await w.get(`${path}/${id}`, { as: token })).body.state, 'running')
  await db().updateTable('exports').set({ next_try_at: new Date() }).where('id', '=', id).execute()
  await using next = await startApiProcess(w, { mail: mail() })
  await until('it is ready', 120_000, async () => (await w.get(`${path}/${id}`, { as: token })).body.state === 'ready')
  const { body: ready } = await w.get(`${path}/${id}`, { as: token })
  const answer = await fetch(`${next.base}${path}/${id}/content`, { headers: { authorization: `Bearer ${token}` } })
  const bytes = Buffer.from(await answer.arrayBuffer())
  assert.deepEqual([bytes.length, createHash('sha256').update(bytes).digest('hex')], [ready.size_bytes, ready.sha256])
  assert.deepEqual([...new Set((await parts(id)).map(({ attempt }) => attempt))], [2])
}

test('an api that is killed during an export is followed by another, which completes it', TIMEOUT, async () => {
  const of = await largeOrganization('middle')
  let id = ''
  await stoppedAtSecondPart(async () => {
    await using api = await startApiProcess(w, { mail: mail() })
    const begun = await w.post(of.path, undefined, { as: of.token, base: api.base })
    assert.equal(begun.status, 202)
    id = begun.body.id
    await until('its first part is there', 60_000, async () => (await parts(id)).length > 0)
    await api.kill()
  })
  const left = (await parts(id)).map(({ attempt }) => attempt)
  assert.ok(left.length >= 1 && left.every((attempt) => attempt === 1))
  await assertMadeByTheNext(id, of)
})

test('an api that is killed before it marks an export as ready is followed by another, which makes it again', TIMEOUT, async () => {
  const of = await largeOrganization('end')
  let id = ''
  {
    await using api = await startApiProcess(w, { mail: mail(), killed_at: 'export.X1' })
    const begun = await w.post(of.path, undefined, { as: of.token, base: api.base })
    assert.equal(begun.status, 202)
    id = begun.body.id
    assert.equal(await api.ended, 'SIGKILL')
  }
  assert.ok((await parts(id)).length > 1)
  await assertMadeByTheNext(id, of)
})

test('a part of a superseded attempt is not stored', async () => {
  const { path, token } = await largeOrganization('over')
  const { id } = (await w.post(path, undefined, { as: token })).body
  const now = new Date()
  assert.equal((await claimExport(w.database.api, now, now))?.attempt, 1)
  assert.equal((await claimExport(w.database.api, now, now))?.attempt, 2)
  const part = (attempt: number) => insertPart(w.database.api, { id, attempt }, 0, Buffer.from('a part'), now)
  assert.deepEqual([await part(1), await part(2)], [false, true])
  assert.deepEqual(await parts(id), [{ attempt: 2, number: 0 }])
})
