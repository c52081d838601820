import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { world, type World } from '../api/support.ts'
import { ask, ownIds, said, type Ids } from './app-world.ts'
import { bodyOf, sceneOf } from './scenes.ts'
import { contentOfTables } from './tables.ts'

let w: World
let own: Ids
before(async () => {
  w = await world()
  own = await ownIds(w)
})
after(() => w[Symbol.asyncDispose]())

const OTHER_BODIES: Record<string, object> = {
  'workspaces.open': { key: 'other' },
  'workspaces.fork': { key: 'other' },
  'workspaces.fork_tree': { key: 'other' },
  'workspaces.resume': { agent_label: 'other' },
  'workspaces.snapshot': { label: 'other' },
  'workspaces.restore': { checkpoint_id: '01920000-0000-7000-8000-00000000beef' },
  'workspaces.reset': { confirm_destructive: false },
  'workspaces.suspend_when_idle': { after_seconds: 31 },
  'secret-versions.create': { value: 'other' },
  'volumes.create': { name: 'other', quota_gib: 1 },
  'attachments.create': { volume_id: '01920000-0000-7000-8000-00000000beef' },
}

/** What makes something of a name that is one: its repeat finds the name taken. */
const ONCE: Record<string, string> = {
  'secrets.create': '409 conflict/name_taken',
  'secrets.create_of_organization': '409 conflict/name_taken',
}

/** What an answer that is a credential has of its own beside. */
const OWN_NAMES: Record<string, readonly string[]> = {
  'port-tokens.create': ['created_at'],
  'port-links.create': ['created_at', 'url'],
  'port-callbacks.create': ['created_at', 'url'],
}

for (const route of APP_ROUTES.filter(({ idempotent }) => idempotent)) {
  test(`${route.id} sent twice with one Idempotency-Key has one effect and one answer`, async () => {
    const key = `twice-${route.id}`
    const ids = await sceneOf(w, own, route, key)
    const headers = { 'idempotency-key': key }
    const body = bodyOf(route, key)
    const before = await contentOfTables(w.database.superuser)
    const first = await ask(w, route, ids, { headers, body })
    const between = await contentOfTables(w.database.superuser)
    assert.notDeepEqual(between, before)
    const second = await ask(w, route, ids, { headers, body })
    assert.ok(first.status < 300, said(first))
    assert.deepEqual([second.status, second.body], [first.status, first.body])
    assert.deepEqual([first.headers.get('idempotent-replayed'), second.headers.get('idempotent-replayed')], [null, 'true'])
    assert.deepEqual(await contentOfTables(w.database.superuser), between)
    const other = OTHER_BODIES[route.id]
    const mismatch = other
      ? await ask(w, route, ids, { headers, body: other })
      : await ask(w, route, { ...ids, workspace_id: w.ids.next(), volume_id: w.ids.next() }, { headers })
    assert.equal(said(mismatch), '422 idempotency_mismatch')
    assert.deepEqual(await contentOfTables(w.database.superuser), between)
  })
}

for (const route of APP_ROUTES.filter(({ method, idempotent }) => method !== 'GET' && !idempotent)) {
  test(`${route.id} ignores an Idempotency-Key, and its repeat leaves what the first left`, async () => {
    const ids = await sceneOf(w, own, route, `again-${route.id}`)
    const first = await ask(w, route, ids, { headers: { 'idempotency-key': 'not one' } })
    const second = await ask(w, route, ids)
    assert.ok(first.status < 300, said(first))
    const once = ONCE[route.id]
    if (once !== undefined) return assert.equal(said(second), once)
    const own_names = OWN_NAMES[route.id] ?? []
    assert.deepEqual([second.status, lasting(second.body, own_names)], [first.status, lasting(first.body, own_names)])
  })
}

for (const route of APP_ROUTES.filter(({ method }) => method === 'GET')) {
  test(`${route.id} read twice is the same, and reading changes nothing`, async () => {
    const before = await contentOfTables(w.database.superuser)
    const first = await ask(w, route, own)
    const second = await ask(w, route, own)
    assert.deepEqual([first.status, second.body], [200, first.body])
    assert.deepEqual(await contentOfTables(w.database.superuser), before)
  })
}

/** Without what every answer has of its own: moments, a token with its id, and the number of a version. */
function lasting(body: Record<string, unknown> = {}, own_names: readonly string[] = []): unknown {
  const { version: _version, token: _token, issued_at: _issued, expires_at: _expires, updated_at: _updated, ...rest } = body
  return Object.fromEntries(Object.entries(rest).filter(([name]) => !own_names.includes(name)))
}
