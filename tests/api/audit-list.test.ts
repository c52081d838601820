import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { listEvents } from '../../service/api/records/audit/store.ts'
import { readerOf } from '../../service/db/reader.ts'
import { refusal } from './auth-support.ts'
import { seeder, world, type World } from './support.ts'

let w: World
let path: string
let owner: { id: string; token: string }
before(async () => {
  w = await world()
  path = `/v1/organizations/${w.a.organization_id}`
  owner = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'owner', { stepped_up: true })
})
after(() => w[Symbol.asyncDispose]())

const list = (query = '') => w.get(`${path}/audit${query}`, { as: owner.token })

test('the audit list shows each change with actor, address and time, takes filters, and contains no secret', async () => {
  const value = 'a value that nobody is to read'
  const secret = await w.post(`${path}/secrets`, { name: 'LISTED', value }, { as: owner.token })
  const member = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'member')
  const headers = { 'x-request-id': 'request-of-listed' }
  await w.call('PATCH', `${path}/members/${member.id}`, { as: owner.token, body: { role: 'billing' }, headers })
  const { status, body } = await list(`?subject_id=${member.id}`)
  const { id: _id, created_at: _at, ...event } = body.data[0]
  assert.deepEqual(
    [status, body.data.length, event],
    [
      200,
      1,
      {
        organization_id: w.a.organization_id,
        project_id: null,
        actor: { kind: 'user', id: owner.id, name: null },
        action: 'members.update',
        subject: { kind: 'person', id: member.id },
        request_id: 'request-of-listed',
        source_address: '127.0.0.1',
        details: { role: 'billing' },
        sequence: null,
        sha256: null,
      },
    ],
  )
  const of = async (query: string) => (await list(query)).body.data.map(({ action }: { action: string }) => action)
  assert.deepEqual(await of(`?actor_id=${owner.id}`), ['members.update', 'secrets.create_of_organization'])
  assert.deepEqual(await of('?action=secrets.create_of_organization'), ['secrets.create_of_organization'])
  const soon = new Date(Date.now() + 3600_000).toISOString()
  assert.deepEqual([(await of(`?from=${soon}`)).length, (await of(`?to=${soon}`)).length > 1], [0, true])
  for (const none of ['0000-01-01T00:00:00Z', '2026-06-30T23:59:60Z']) assert.equal((await list(`?from=${none}`)).status, 422, none)
  assert.ok(secret.status === 201 && !JSON.stringify((await list('?limit=200')).body).includes(value))
})

test('keys, members and outsiders read no records', async () => {
  const member = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'member')
  const stranger = await seeder(w.database, w.clock, w.ids).person(w.b.organization_id, 'owner')
  const asked = async (as: string) => refusal(await w.get(`${path}/audit`, { as }))
  assert.deepEqual(
    [await asked(w.a.key), await asked(member.token), await asked(stranger.token)],
    [[403, 'forbidden'], [403, 'forbidden'], [404, 'not_found']], // prettier-ignore
  )
})

test('rare records are found over several pages, and each page reads at most its bound', async () => {
  for (let n = 0; n < 30; n++) await w.open(`audited-${n}`)
  const reads = readerOf(w.database.superuser)
  const found: string[] = []
  let below: string | null = null
  let pages = 0
  do {
    const { rows, last } = await listEvents(reads, w.a.organization_id, { action: 'members.update' }, { below, limit: 10 }, 7)
    found.push(...rows.map(({ action }) => action))
    below = last
    pages += 1
  } while (below !== null)
  assert.deepEqual([found, pages > 3], [['members.update'], true])
})

test('each page continues where the previous one ended, and the pages together are the whole list', async () => {
  const whole = (await list('?limit=200')).body.data.map(({ id }: { id: string }) => id)
  const walked: string[] = []
  let cursor: string | null = null
  do {
    const { body } = await list(`?limit=7${cursor === null ? '' : `&cursor=${cursor}`}`)
    walked.push(...body.data.map(({ id }: { id: string }) => id))
    cursor = body.next_cursor
  } while (cursor !== null)
  assert.deepEqual(walked, whole)
})
