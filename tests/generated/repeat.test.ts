import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { AppRoute } from '../../contract/route.ts'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { seeder, world, type World } from '../api/support.ts'
import { ask, ownIds, said, type Ids } from './app-world.ts'
import { contentOfTables } from './tables.ts'

let w: World
let own: Ids
before(async () => {
  w = await world()
  own = await ownIds(w)
})
after(() => w[Symbol.asyncDispose]())

const suspended = async (key: string) => {
  const id = await w.running(key)
  await w.cell.succeed((await w.post(`/v1/workspaces/${id}/suspend`)).body.id)
  return id
}
const CHECKPOINT = '01920000-0000-7000-8000-00000000c0de'
/** A workspace in which the mutation has something to do, by route. A route that is new must say its own. */
const SCENES: Record<string, (key: string) => Promise<string | undefined>> = {
  'workspaces.open': async () => undefined,
  'workspaces.delete': (key) => w.running(key),
  'workspaces.suspend': (key) => w.running(key),
  'workspaces.resume': suspended,
  'workspaces.fork': (key) => w.running(key),
  'workspaces.snapshot': (key) => w.running(key),
  'workspaces.reset': (key) => w.running(key),
  'workspaces.restore': async (key) => {
    const id = await w.running(key)
    await seeder(w.database, w.clock, w.ids).checkpoint(id, { id: CHECKPOINT })
    return id
  },
  'workspaces.close': (key) => w.running(key, { lifetime: 'session' }),
  'workspaces.suspend_when_idle': (key) => w.running(key),
  'workspaces.cancel_suspend_when_idle': (key) => w.running(key),
  'workspaces.idle_policy': (key) => w.running(key),
  'tool-tokens.create': (key) => w.running(key),
}
/** Bodies that do something: the smallest that the schema takes are not enough. */
const BODIES: Record<string, (key: string) => object> = {
  'workspaces.open': (key) => ({ key: `${key}-new` }),
  'workspaces.fork': (key) => ({ key: `${key}-new` }),
  'workspaces.restore': () => ({ checkpoint_id: CHECKPOINT }),
  'workspaces.reset': () => ({ confirm_destructive: true }),
}
const bodyOf = (route: AppRoute, key: string): object => BODIES[route.id]?.(key) ?? {}
const OTHER_BODIES: Record<string, object> = {
  'workspaces.open': { key: 'other' },
  'workspaces.fork': { key: 'other' },
  'workspaces.resume': { agent_label: 'other' },
  'workspaces.snapshot': { label: 'other' },
  'workspaces.restore': { checkpoint_id: '01920000-0000-7000-8000-00000000beef' },
  'workspaces.reset': { confirm_destructive: false },
  'workspaces.suspend_when_idle': { after_seconds: 31 },
}

async function sceneOf(route: AppRoute, key: string): Promise<Ids> {
  const scene = SCENES[route.id]
  assert.ok(scene, `say in SCENES where ${route.id} has something to do`)
  const workspace_id = await scene(key)
  return workspace_id === undefined ? own : { ...own, workspace_id }
}

for (const route of APP_ROUTES.filter(({ idempotent }) => idempotent)) {
  test(`${route.id} sent twice with one Idempotency-Key has one effect and one answer`, async () => {
    const key = `twice-${route.id}`
    const ids = await sceneOf(route, key)
    const headers = { 'idempotency-key': key }
    const body = bodyOf(route, key)
    const before = await contentOfTables(w.database.superuser)
    const first = await ask(w, route, ids, { headers, body })
    const between = await contentOfTables(w.database.superuser)
    assert.notDeepEqual(between, before)
    const second = await ask(w, route, ids, { headers, body })
    assert.ok(first.status < 300, said(first))
    assert.deepEqual([second.status, second.body], [first.status, first.body])
    assert.deepEqual(await contentOfTables(w.database.superuser), between)
    const other = OTHER_BODIES[route.id]
    const mismatch = other
      ? await ask(w, route, ids, { headers, body: other })
      : await ask(w, route, { ...ids, workspace_id: w.ids.next() }, { headers })
    assert.equal(said(mismatch), '422 idempotency_mismatch')
    assert.deepEqual(await contentOfTables(w.database.superuser), between)
  })
}

for (const route of APP_ROUTES.filter(({ method, idempotent }) => method !== 'GET' && !idempotent)) {
  test(`${route.id} ignores an Idempotency-Key, and its repeat leaves what the first left`, async () => {
    const ids = await sceneOf(route, `again-${route.id}`)
    const first = await ask(w, route, ids, { headers: { 'idempotency-key': 'not one' } })
    const second = await ask(w, route, ids)
    assert.ok(first.status < 300, said(first))
    assert.deepEqual([second.status, lasting(second.body)], [first.status, lasting(first.body)])
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

/** Without what every answer has of its own: moments, and a token with its id. */
function lasting(body: Record<string, unknown>): unknown {
  const { token: _token, issued_at: _issued, expires_at: _expires, updated_at: _updated, ...rest } = body
  return rest
}
