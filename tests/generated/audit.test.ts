import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { world, type World } from '../api/support.ts'
import { ask, ownIds, said, usualCaller, type Ids } from './app-world.ts'
import { bodyOf, sceneOf } from './scenes.ts'

let w: World
let own: Ids
let owner_id: string
before(async () => {
  w = await world()
  own = await ownIds(w)
  const owners = w.database.superuser.selectFrom('memberships').select('person_id').where('role', '=', 'owner')
  owner_id = (await owners.where('organization_id', '=', w.a.organization_id).executeTakeFirstOrThrow()).person_id
})
after(() => w[Symbol.asyncDispose]())

const recorded = () =>
  w.database.superuser
    .selectFrom('audit_events')
    .select(['id', 'action', 'actor_kind', 'actor_id', 'organization_id', 'project_id', 'request_id'])
    .orderBy('id')
    .execute()

/** Who would want to know of one change must find exactly one record of it. */
for (const route of APP_ROUTES.filter(({ method }) => method !== 'GET')) {
  test(`${route.id} leaves one record, of who called it, and none when it is refused`, async () => {
    const key = `audit-${route.id}`
    const ids = await sceneOf(w, own, route, key)
    const body = bodyOf(route, key)
    const before = await recorded()
    const stranger = await ask(w, route, ids, { as: w.b.key, body })
    // A key of another organization opens its own workspace of that name.
    if (route.id !== 'workspaces.open') {
      assert.ok(stranger.status >= 400, said(stranger))
      assert.deepEqual(await recorded(), before)
    }
    const between = await recorded()
    const done = await ask(w, route, ids, { body, headers: { 'x-request-id': `of-${key}` } })
    assert.ok(done.status < 300, said(done))
    const added = (await recorded()).slice(between.length).map(({ id: _id, ...event }) => event)
    const { organization_id, key_row_id } = w.a
    // What only people may do is of the whole organization.
    const is_peoples = usualCaller(w, route, own) !== w.a.key
    const actor = is_peoples ? { actor_kind: 'user', actor_id: owner_id } : { actor_kind: 'api_key', actor_id: key_row_id }
    const project_id = is_peoples ? null : w.a.project_id
    assert.deepEqual(added, [{ ...actor, action: route.id, organization_id, project_id, request_id: `of-${key}` }])
  })
}

test('a read leaves no record', async () => {
  const before = await recorded()
  for (const route of APP_ROUTES.filter(({ method }) => method === 'GET')) assert.equal((await ask(w, route, own)).status, 200)
  assert.deepEqual(await recorded(), before)
})
