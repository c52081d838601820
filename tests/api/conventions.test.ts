import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import type { AppRoute } from '../../contract/route.ts'
import { propertiesOf } from '../../service/http/checks.ts'
import { upload } from '../generated/app-world.ts'
import { sample } from '../generated/samples.ts'
import { readyExport } from '../support/exports.ts'
import { layerList } from '../support/layer-lists.ts'
import { seeder, world, type Answer, type World } from './support.ts'

let w: World
let [owner, owner_id, session_of_owner, stranger] = ['', '', '', '']
before(async () => {
  w = await world()
  const seeds = seeder(w.database, w.clock, w.ids)
  const person = await seeds.person(w.a.organization_id, 'owner', { stepped_up: true })
  ;[owner, owner_id, session_of_owner] = [person.token, person.id, await seeds.session(person.id)]
  stranger = (await seeds.person(w.b.organization_id, 'owner', { stepped_up: true })).token
})
after(() => w[Symbol.asyncDispose]())

const code = (answer: Answer) => [answer.status, answer.body.error.code]
const GOOD_BODIES: Record<string, object> = {
  'workspaces.open': { key: 'k', template: 'base' },
  'workspaces.fork': { key: 'fork' },
  'workspaces.fork_tree': { key: 'fork' },
  'workspaces.idle_policy': { idle_policy: null },
  'workspaces.suspend_when_idle': { after_seconds: 30 },
  'workspaces.restore': { checkpoint_id: '01920000-0000-7000-8000-000000000000' },
  'workspaces.adopt': { fork_workspace_id: '01920000-0000-7000-8000-000000000000' },
  'workspaces.set_secrets': { names: [] },
  'secrets.create': { name: 'NAME', value: 'v' },
  'secrets.create_of_organization': { name: 'NAME', value: 'v' },
  'secret-versions.create': { value: 'v' },
  'egress.project_put': { mode: 'deny_all' },
  'egress.workspace_put': { mode: 'deny_all' },
  'volumes.create': { name: 'name', quota_gib: 1 },
  'attachments.create': { volume_id: '01920000-0000-7000-8000-000000000000', mount_path: '/home/user/data' },
}
const goodBody = (route: AppRoute): object => {
  const { body } = route
  return GOOD_BODIES[route.id] ?? (body === undefined || body === 'bytes' || route.body_optional ? {} : (sample(body) as object))
}
const NAMES: Record<string, string> = { port: '3000', slug: 'base', version: '1' }
const fill = (path: string, id: (name: string) => string) => path.replaceAll(/\{(\w+)\}/g, (_, name: string) => NAMES[name] ?? id(name))
const isForPeople = ({ access }: AppRoute) => access.kind === 'principal' && (access.keys === 'forbidden' || access.keys === 'unknown')
const callerOf = (route: AppRoute) => (isForPeople(route) ? { as: owner } : {})
const send = (route: AppRoute, url: string, options: object = {}) =>
  w.call(route.method, url, {
    ...callerOf(route),
    ...(route.body === undefined ? {} : { body: goodBody(route) }),
    ...options,
  })

test('every route with an id answers the same 404 for a missing object and for an object of another tenant', async () => {
  const [mine, saved] = [await w.running('tenancy'), await w.running('saved')]
  const random = w.ids.next()
  const own: Record<string, string> = {
    workspace_id: mine,
    operation_id: (await w.post(`/v1/workspaces/${mine}/suspend`)).body.id,
    organization_id: w.a.organization_id,
    project_id: w.a.project_id,
    build_id: (await w.post(`/v1/workspaces/${saved}/save-as-template`, { template_slug: 'saved' })).body.build.id,
    secret_id: (await w.post(`/v1/projects/${w.a.project_id}/secrets`, { name: 'TENANCY', value: 'v' })).body.id,
    session_id: session_of_owner,
    upload_id: await upload(w),
    account_export_id: await readyExport(w, { organization_id: null, requested_by: owner_id }),
  }
  const before = (await w.get(`/v1/workspaces/${mine}`)).body
  const checked: string[] = []
  for (const route of APP_ROUTES) {
    const [, name] = /\{(\w+_id)\}/.exec(route.path) ?? []
    if (name === undefined) continue
    checked.push(route.id)
    // The path's other ids are random too: the first one decides.
    const url = (id: string) => fill(route.path.replace(`{${name}}`, id), () => random)
    const missing = await send(route, url(random))
    const keys = name === 'organization_id' ? [w.b.key] : [w.b.key, w.a2.key]
    const callers = isForPeople(route) ? [stranger] : keys
    for (const as of callers) {
      const foreign = await send(route, url(own[name] ?? ''), { as })
      for (const { body } of [missing, foreign]) delete body.error?.request_id
      assert.deepEqual([foreign.status, foreign.body], [404, missing.body], route.id)
    }
    const bad = await send(route, url('not-a-uuid'))
    assert.deepEqual([code(bad), bad.body.error.details.issues[0].path], [[422, 'validation_failed'], name], route.id)
    assert.deepEqual(code(await send(route, url(random), { as: null })), [401, 'unauthenticated'], route.id)
  }
  assert.ok(checked.length >= 17, checked.join())
  assert.deepEqual((await w.get(`/v1/workspaces/${mine}`)).body, before)
})

test('every route with a body refuses unknown properties, wrong types and invalid JSON', async () => {
  for (const route of APP_ROUTES.filter(({ method, body }) => method !== 'GET' && body !== 'bytes')) {
    const url = fill(route.path, () => w.ids.next())
    const good = goodBody(route)
    const as = callerOf(route)
    const unknown = await w.call(route.method, url, { ...as, body: { ...good, nope: 1, id: 'x' } })
    assert.deepEqual(
      [unknown.status, unknown.body.error.details.issues.map((issue: { path: string }) => issue.path).sort()],
      [422, ['id', 'nope']],
      route.id,
    )
    assert.deepEqual(code(await w.call(route.method, url, { ...as, body: '{"a":' })), [400, 'bad_request'], route.id)
    const empty = await w.call(route.method, url, { ...as, body: '', headers: { 'content-type': 'application/json' } })
    assert.deepEqual([...code(empty), /leave the header out/.test(empty.body.error.message)], [400, 'bad_request', true], route.id)
    assert.deepEqual(
      code(await w.call(route.method, url, { ...as, body: '{}', headers: { 'content-type': 'text/xml' } })),
      [415, 'unsupported_media_type'],
      route.id,
    )
    assert.deepEqual(
      code(await w.call(route.method, url, { ...as, body: `{"a":"${'x'.repeat(1 << 20)}"}` })),
      [413, 'payload_too_large'],
      route.id,
    )
    for (const wrong of ['[]', '1', 'null'])
      assert.equal((await w.call(route.method, url, { ...as, body: wrong })).status, 422, `${route.id} ${wrong}`)
  }
})

test('every list takes limits of 1 to 200, files 1 to 1000, and only its own cursors from the same caller', async () => {
  const { organization_id, project_id } = w.a
  const secret_id = (await w.post(`/v1/projects/${project_id}/secrets`, { name: 'LISTS', value: 'v' })).body.id
  const own: Record<string, string> = { workspace_id: await w.running('lists'), organization_id, project_id, secret_id }
  await w.open('lists-more')
  const foreign = (await w.get('/v1/workspaces?limit=1')).body.next_cursor as string
  await layerList(w.database.superuser, '0'.repeat(64), ['a'])
  assert.equal((await w.post('/v1/templates/drafted/draft', { base: 'base@1' })).status, 202)
  const lists = APP_ROUTES.filter((route) => 'cursor' in propertiesOf(route.query))
  // The package list needs a mirror.
  for (const route of lists.filter(({ id }) => id !== 'template-packages.list')) {
    const path = fill(route.id.startsWith('draft-') ? route.path.replace('{slug}', 'drafted') : route.path, (name) => own[name] ?? '')
    const { status, body } = await w.get(`${path}?limit=200`, callerOf(route))
    assert.deepEqual([status, Array.isArray(body.data), body.next_cursor], [200, true, null], route.id)
    for (const [field, value] of [
      ['limit', '0'],
      ['limit', route.id.startsWith('template-files.') ? '1001' : '201'],
      ['cursor', 'x'.repeat(201)],
      ['cursor', 'A'.repeat(43)],
      ['cursor', "'%20OR%201=1--"],
      ['cursor', route.id === 'workspaces.list' ? `${foreign}A` : foreign],
    ]) {
      const refused = await w.get(`${path}?${field}=${value}`, callerOf(route))
      assert.deepEqual([refused.status, refused.body.error.details.issues[0].path], [422, field], `${route.id} ${field}=${value}`)
    }
  }
  assert.ok(lists.length >= 6, lists.map(({ id }) => id).join())
})
