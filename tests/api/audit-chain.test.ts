import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { AUDIT_DAYS, deleteExpired } from '../../service/api/forget.ts'
import { CHAIN_START, firstBroken, type EventRow } from '../../service/core/changes/chain.ts'
import { eventsAfter, linkEvents } from '../../service/core/changes/chain-store.ts'
import { mutate } from '../../service/core/changes/mutate.ts'
import type { ChangeOrigin } from '../../service/core/changes/audit.ts'
import { refusal } from './auth-support.ts'
import { seeder, world, type World } from './support.ts'
import { adminEnd } from '../support/admin.ts'

let w: World
let folder: string
let owner: { id: string; token: string }
before(async () => {
  w = await world()
  folder = mkdtempSync(join(tmpdir(), 'berth-audit-test-'))
  owner = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'owner', { stepped_up: true })
})
after(async () => {
  await w[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

const by = (): ChangeOrigin => ({
  actor: { kind: 'service', name: 'setup' },
  ids: w.ids,
  now: w.clock.now(),
  request_id: null,
  source_address: null,
})
const record = (organization_id: string | null, n: number) =>
  mutate(w.database.api, by(), 'tests.record', async () => undefined, { kind: 'plan', id: `of-${n}`, organization_id, project_id: null })
const whole = async (organization_id: string) => firstBroken(CHAIN_START, await eventsAfter(w.database.api, organization_id, 0, 10_000))

const verify = (...args: string[]) => adminEnd({ database_url: w.database.url }, 'audit', 'verify', ...args)

async function tampered(change: string, check: () => Promise<void>): Promise<void> {
  const { superuser: db } = w.database
  await sql`create table kept as select * from audit_events`.execute(db)
  try {
    await sql.raw(change).execute(db)
    await check()
  } finally {
    await sql`delete from audit_events`.execute(db)
    await sql`insert into audit_events select * from kept`.execute(db)
    await sql`drop table kept`.execute(db)
  }
}

test('concurrent changes of each organization, linked by two processes, form one complete chain', async () => {
  const of = [w.a.organization_id, w.b.organization_id, null]
  const recorded = Array.from({ length: 300 }, (_, n) => record(of[n % 3] ?? null, n))
  const linking = Promise.all([linkEvents(w.database.api), linkEvents(w.database.api)])
  await Promise.all([...recorded, linking])
  while ((await linkEvents(w.database.api)) > 0);
  for (const organization_id of [w.a.organization_id, w.b.organization_id]) {
    const end = await whole(organization_id)
    assert.ok('sha256' in end && end.sequence >= 100, JSON.stringify(end))
  }
  const { code, stdout } = await verify()
  assert.deepEqual([code, stdout.trim().split('\n').length], [0, 3])
})

test('neither process can insert a link of the audit chain, and the cell cannot write one', async () => {
  for (const role of [w.database.api, w.database.cell]) {
    await assert.rejects(sql`insert into audit_events (id, created_at, actor_kind, action, subject_kind, subject_id, sequence)
      values (${w.ids.next()}, now(), 'service', 'a', 'b', 'c', 7)`.execute(role), { code: '42501' }) // prettier-ignore
  }
  await assert.rejects(sql`update audit_events set sequence = 1`.execute(w.database.cell), { code: '42501' })
})

const at = (n: number) => `organization_id = '${w.a.organization_id}' and sequence = ${n}`
const TAMPERED: [string, () => string, RegExp][] = [
  ['a record that says something else', () => `update audit_events set actor_name = 'somebody' where ${at(40)}`, /record 40 \([0-9a-f-]{36}\): it was changed/],
  ['details that say something else', () => `update audit_events set details = '{"role": "owner"}' where ${at(41)}`, /record 41 .*it was changed/],
  ['a record that is missing', () => `delete from audit_events where ${at(50)}`, /record 50: it is missing/],
  ['the newest that are missing', () => `delete from audit_events where organization_id = '${w.a.organization_id}' and sequence > 60`, /record 61: it and all behind it are missing/],
  ['the oldest that are missing', () => `delete from audit_events where organization_id = '${w.a.organization_id}' and sequence < 4`, /record 1: it is missing/],
] // prettier-ignore

for (const [what, change, told] of TAMPERED) {
  test(`the verifier names ${what}`, async () => {
    await tampered(change(), async () => {
      const { code, stderr } = await verify()
      assert.equal(code, 1)
      assert.match(stderr, told)
      assert.match(stderr, /organization a/)
    })
    assert.equal((await verify()).code, 0)
  })
}

test('a chain that was rebuilt as a whole does not match the end that was kept', async () => {
  const ends = join(folder, 'ends')
  writeFileSync(ends, (await verify()).stdout)
  assert.equal((await verify('--ends', ends)).code, 0)
  await record(w.a.organization_id, 1000)
  await linkEvents(w.database.api)
  assert.equal((await verify('--ends', ends)).code, 0) // the chain has grown
  await sql`create table chains as select * from audit_chains`.execute(w.database.superuser)
  await tampered(
    `update audit_events set actor_name = 'somebody' where ${at(40)}; update audit_events set sequence = null, sha256 = null; delete from audit_chains`,
    async () => {
      await linkEvents(w.database.api)
      assert.equal((await verify()).code, 0)
      const { code, stderr } = await verify('--ends', ends)
      assert.equal(code, 1)
      assert.match(stderr, /it is not the one that was there when the ends were kept/)
    },
  )
  await sql`truncate audit_chains; insert into audit_chains select * from chains; drop table chains`.execute(w.database.superuser)
  assert.equal((await verify('--ends', ends)).code, 0)
})

test('the audit export is the chain, one record a line, from any requested position', async () => {
  const path = `${w.base}/v1/organizations/${w.a.organization_id}/audit/export`
  const exported = async (query = '') => {
    const response = await fetch(`${path}${query}`, { headers: { authorization: `Bearer ${owner.token}` } })
    assert.deepEqual([response.status, response.headers.get('content-type')], [200, 'application/x-ndjson'])
    const lines = (await response.text()).split('\n').filter((line) => line !== '')
    return lines.map((line) => JSON.parse(line) as { sequence: number; sha256: string; subject: { id: string }; actor: { name: string } })
  }
  const all = await exported()
  assert.deepEqual(all.map(({ sequence }) => sequence), all.map((_, n) => n + 1)) // prettier-ignore
  const rows = await eventsAfter(w.database.api, w.a.organization_id, 0, 10_000)
  assert.deepEqual(all.map(({ sha256 }) => sha256), rows.map(({ sha256 }: EventRow) => sha256?.toString('hex'))) // prettier-ignore
  assert.deepEqual(await exported(`?after=${all.length - 2}`), all.slice(-2))
  assert.deepEqual(await exported(`?after=${all.length}`), [])
})

test('keys, members, outsiders and sessions without a recent password check export nothing', async () => {
  const seeds = seeder(w.database, w.clock, w.ids)
  const asked = async (as: string) => refusal(await w.get(`/v1/organizations/${w.a.organization_id}/audit/export`, { as }))
  assert.deepEqual(await asked(w.a.key), [403, 'forbidden'])
  assert.deepEqual(await asked((await seeds.person(w.a.organization_id, 'member', { stepped_up: true })).token), [403, 'forbidden'])
  assert.deepEqual(await asked((await seeds.person(w.b.organization_id, 'owner', { stepped_up: true })).token), [404, 'not_found'])
  assert.deepEqual(await asked((await seeds.person(w.a.organization_id, 'admin')).token), [403, 'step_up_required'])
})

test('tool calls are listed when a query asks for them, and are in the chain', async () => {
  const organization_id = w.a.organization_id
  await mutate(w.database.api, by(), 'tools.use', async () => undefined, { kind: 'workspace', id: w.ids.next(), organization_id, project_id: w.a.project_id, details: { tool: 'exec' } }) // prettier-ignore
  await linkEvents(w.database.api)
  const list = async (query: string) => (await w.get(`/v1/organizations/${organization_id}/audit${query}`, { as: owner.token })).body.data
  const newest = (await eventsAfter(w.database.api, organization_id, 0, 10_000)).at(-1)
  assert.equal((await list('?limit=1'))[0].action, 'tests.record')
  const [used] = await list('?action=tools.use')
  assert.deepEqual([used.id, used.sequence, used.sha256], [newest?.id, newest?.sequence, newest?.sha256?.toString('hex')])
})

test('a chain whose oldest records have expired is complete from there on', async () => {
  const later = new Date(w.clock.now().getTime() + (AUDIT_DAYS + 1) * 24 * 3600 * 1000)
  await mutate(w.database.api, { ...by(), now: later }, 'tests.record', async () => undefined, { kind: 'plan', id: 'later', organization_id: w.a.organization_id, project_id: null }) // prettier-ignore
  await linkEvents(w.database.api)
  const { audit_events } = await deleteExpired(w.database.api, later)
  assert.ok(audit_events > 100)
  assert.deepEqual((await eventsAfter(w.database.api, w.a.organization_id, 0, 10)).map(({ subject_id }) => subject_id), ['later']) // prettier-ignore
  const { code, stdout, stderr } = await verify()
  assert.equal(code, 0, stderr)
  assert.equal(stdout.trim().split('\n').length, 3)
  await tampered(`delete from audit_events where organization_id = '${w.a.organization_id}'`, async () => {
    assert.equal((await verify()).code, 1)
  })
})
