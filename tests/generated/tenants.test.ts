import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { AppRoute } from '../../contract/route.ts'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { seeder, world, type World } from '../api/support.ts'
import { ask, memberOfTwo, ownIds, routesWithIds, said, usualCaller, type Ids } from './app-world.ts'
import { idsOf, sampleOf } from './samples.ts'
import { contentOfTables } from './tables.ts'

let w: World
let own: Ids
let member: string
before(async () => {
  w = await world()
  own = await ownIds(w)
  member = await memberOfTwo(w)
  await w.open('of-b', {}, { as: w.b.key })
  await w.open('of-a2', {}, { as: w.a2.key })
})
after(() => w[Symbol.asyncDispose]())

const WITHIN: ReadonlySet<string> = new Set([
  'checkpoint_id',
  'volume_id',
  'invoice_id',
  'person_id',
  'invitation_id',
  'api_key_id',
  'export_id',
  'version',
])
const OF_ORGANIZATIONS: ReadonlySet<string> = new Set(['organization_id', 'slug', 'version'])

for (const route of routesWithIds) {
  test(`${route.id} says the same of what is another project's, another organization's or nobody's, and does nothing`, async () => {
    const outsider = await seeder(w.database, w.clock, w.ids).person(w.b.organization_id, 'owner', { stepped_up: true })
    const before = await contentOfTables(w.database.superuser)
    const headers = { 'x-request-id': 'the-same-for-all' }
    for (const name of idsOf(route)) {
      const nobodys_ids = { ...own, [name]: name === 'version' ? '99' : w.ids.next() }
      // For its own tenant, too, an unknown id within a workspace or project is a 404, perhaps with a reason.
      const is_within = WITHIN.has(name) || (name === 'slug' && idsOf(route).includes('organization_id'))
      const reason = name === 'checkpoint_id' ? '/checkpoint_not_found' : name === 'version' ? '/version_not_found' : ''
      const told = await ask(w, route, nobodys_ids, { headers })
      assert.equal(said(told), `404 not_found${reason}`)
      // Other projects of the same organization may see ids of OF_ORGANIZATIONS.
      const keys = OF_ORGANIZATIONS.has(name) ? [w.b.key] : [w.b.key, w.a2.key]
      // Such a route refuses every key.
      const callers = [outsider.token, ...(usualCaller(w, route, own) === w.a.key ? keys : [])]
      for (const as of callers) {
        const nobodys = is_within ? await ask(w, route, nobodys_ids, { as, headers }) : told
        assert.equal(said(nobodys), '404 not_found')
        const foreign = await ask(w, route, own, { as, headers })
        assert.equal(JSON.stringify([foreign.status, foreign.body]), JSON.stringify([nobodys.status, nobodys.body]))
      }
    }
    assert.deepEqual(await contentOfTables(w.database.superuser), before)
  })
}

/** Debian's packages are the same for all tenants: template-sources.test.ts. */
const SHARED = ['template-packages.list']
const lists = APP_ROUTES.filter(
  ({ id, query }) => !SHARED.includes(id) && query !== undefined && 'cursor' in (query as { properties: object }).properties,
)
const read = (route: AppRoute, query: string, as: string) => w.get(`${sampleOf(route, own).path}?${query}`, { as })

for (const route of lists) {
  test(`${route.id} shows nothing of others, whatever its filters name`, async () => {
    const filters = Object.keys((route.query as { properties: object }).properties).filter((name) => own[name] !== undefined)
    const foreign: Ids = { organization_id: w.b.organization_id, project_id: w.b.project_id }
    for (const name of filters) {
      for (const value of [foreign[name], w.ids.next()]) {
        const { status, body } = await read(route, `${name}=${value}&limit=200`, usualCaller(w, route, own))
        assert.deepEqual([status, status === 200 ? body.data : []], [status === 200 ? 200 : 404, []])
      }
    }
    const { body } = await read(route, 'limit=200', usualCaller(w, route, own))
    // An auditor sees the records of all projects.
    const own_others = route.id === 'audit.list' ? [] : [w.a2.project_id]
    const theirs = [w.b.organization_id, w.b.project_id, ...own_others].filter((id) => JSON.stringify(body).includes(id))
    assert.deepEqual([theirs, body.data.length > 0], [[], true])
  })

  test(`${route.id} takes no cursor but its own, of the same caller`, async () => {
    const { body } = await read(route, 'limit=1', member)
    const cursor: string = body.next_cursor
    assert.ok(cursor.length <= 200)
    const next = await read(route, `limit=1&cursor=${cursor}`, member)
    assert.equal(next.status, 200)
    assert.notDeepEqual(next.body.data, body.data)
    const bytes = Buffer.from(cursor, 'base64url')
    const flipped = Array.from(bytes, (_, at) => Buffer.from(bytes.map((byte, each) => (each === at ? byte ^ 1 : byte))))
    const altered = [...flipped.map((each) => each.toString('base64url')), 'x'.repeat(201), "' OR 1=1--", `${cursor}A`, '', '\u0000']
    for (const bad of altered) {
      const refused = await read(route, `limit=1&cursor=${encodeURIComponent(bad)}`, member)
      assert.deepEqual([said(refused), refused.body.error.details.issues[0].path], ['422 validation_failed', 'cursor'], bad)
    }
    assert.equal(said(await read(route, `limit=1&cursor=${cursor}`, usualCaller(w, route, own))), '422 validation_failed')
    const elsewhere = lists.find(({ id }) => id !== route.id)
    if (elsewhere) assert.equal(said(await read(elsewhere, `limit=1&cursor=${cursor}`, member)), '422 validation_failed')
  })
}
