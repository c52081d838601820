import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { world, type World } from '../api/support.ts'
import { ask, ownIds, PERSON, said, usualCaller, type Ids } from './app-world.ts'
import { isSignIn } from './auth-scenes.ts'
import { bodyOf, NOT_SOLD, sceneOf } from './scenes.ts'

let w: World
let own: Ids
before(async () => {
  w = await world()
  own = await ownIds(w)
})
after(() => w[Symbol.asyncDispose]())

const recorded = () =>
  w.database.superuser
    .selectFrom('audit_events')
    .select(['id', 'action', 'actor_kind', 'actor_id', 'organization_id', 'project_id', 'request_id'])
    .orderBy('id')
    .execute()

/** These routes identify no caller and change nothing, but may send a mail. */
const OF_NOBODY = new Set(['auth.resend_verification', 'auth.request_reset'])

const OF_EVERYBODY = new Set(['workspaces.open', 'feedback.create', 'template-uploads.create', 'template-builds.create', 'drafts.create'])

for (const route of APP_ROUTES.filter(({ id, method }) => method !== 'GET' && !OF_NOBODY.has(id) && !NOT_SOLD.has(id))) {
  test(`${route.id} leaves one record, of who called it, and none when it is refused`, async () => {
    const key = `audit-${route.id}`
    const ids = await sceneOf(w, own, route, key)
    const body = bodyOf(route, key, ids)
    const before = await recorded()
    // Another organization's key may call routes of OF_EVERYBODY, for instance to open its own workspace of that name; a key cannot sign in
    // a person.
    if (!OF_EVERYBODY.has(route.id) && route.access.kind !== 'anyone') {
      const stranger = await ask(w, route, ids, { as: w.b.key, body })
      assert.ok(stranger.status >= 400, said(stranger))
      assert.deepEqual(await recorded(), before)
    }
    const between = await recorded()
    const done = await ask(w, route, ids, { body, headers: { 'x-request-id': `of-${key}` } })
    assert.ok(done.status < 300, said(done))
    const added = (await recorded()).slice(between.length).map(({ id: _id, ...event }) => event)
    const { organization_id, key_row_id } = w.a
    const is_peoples = isSignIn(route) || usualCaller(w, route, own) !== w.a.key
    const person_id = route.id === 'auth.register' ? added[0]?.actor_id : ids[PERSON] // a person who registers has no id before
    const actor = is_peoples ? { actor_kind: 'user', actor_id: person_id } : { actor_kind: 'api_key', actor_id: key_row_id }
    // Actions of people alone belong to the whole organization, or to a person with several organizations.
    const owner = {
      organization_id: isSignIn(route) ? null : organization_id,
      project_id: is_peoples && !route.path.includes('{project_id}') ? null : w.a.project_id,
      ...(route.id === 'organizations.create' ? { organization_id: done.body.id } : {}),
      ...(route.id === 'organizations.delete' ? { organization_id: ids['organization_id'] ?? null } : {}),
      ...(route.id === 'account.delete' || route.id === 'exports.create' ? { organization_id: null } : {}),
      ...(route.id === 'projects.create' ? { project_id: done.body.id } : {}),
    }
    // Deleting an account also records the end of the membership.
    const left =
      route.id === 'account.delete' ? [{ ...actor, organization_id: w.b.organization_id, project_id: null, action: 'members.delete' }] : []
    const said_of = { request_id: `of-${key}` }
    assert.deepEqual(added, [...left.map((one) => ({ ...one, ...said_of })), { ...actor, ...owner, action: route.id, ...said_of }])
  })
}

/** Tested with a mirror: tests/api/template-sources.test.ts. */
const OF_MIRROR = 'template-packages.list'

test('a read leaves no record', async () => {
  const before = await recorded()
  for (const route of APP_ROUTES.filter(({ method, id }) => method === 'GET' && id !== OF_MIRROR))
    assert.equal((await ask(w, route, own)).status, 200)
  assert.deepEqual(await recorded(), before)
})
