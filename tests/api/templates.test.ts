import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { unpublishedVersion } from '../support/template-versions.ts'
import { type Answer, seeder, SETTINGS, type World, world } from './support.ts'

let w: World
let owner: string
let seeds: ReturnType<typeof seeder>
before(async () => {
  w = await world()
  seeds = seeder(w.database, w.clock, w.ids)
  owner = (await seeds.person(w.a.organization_id, 'owner')).token
  await seeds.template(w.a.organization_id, 'own', SETTINGS)
  await seeds.template(w.b.organization_id, 'of-b', SETTINGS)
})
after(() => w[Symbol.asyncDispose]())

const said = ({ status, body }: Answer) => (status < 400 ? status : [status, body.error.code, body.error.details?.reason])
const long = (path = '', of = w.a.organization_id) => `/v1/organizations/${of}/templates${path}`

test("a key lists the platform's and its organization's templates, the long form the organization's alone; newest first", async () => {
  const slugs = ({ body }: Answer) => body.data.map(({ slug }: { slug: string }) => slug)
  assert.deepEqual(slugs(await w.get('/v1/templates')), ['own', 'base'])
  assert.deepEqual(slugs(await w.get(long())), ['own'])
  const first = await w.get('/v1/templates?limit=1')
  assert.deepEqual(slugs(first), ['own'])
  assert.deepEqual(slugs(await w.get(`/v1/templates?limit=1&cursor=${first.body.next_cursor}`)), ['base'])
  const { body } = await w.get('/v1/templates/own')
  assert.deepEqual([body.organization_id, body.latest_version, body.archived_at], [w.a.organization_id, 1, null])
})

test('both forms return the same template, its versions and a version with its settings and layers', async () => {
  for (const path of ['', '/versions', '/versions/1']) {
    const [short, told] = [await w.get(`/v1/templates/own${path}`), await w.get(long(`/own${path}`))]
    assert.deepEqual([short.status, told.body], [200, short.body], path)
  }
  const { body } = await w.get('/v1/templates/own/versions/1')
  assert.deepEqual([body.version, body.slug, body.disk_layout, body.settings, body.egress], [1, 'own', 'layered', SETTINGS, null])
  assert.deepEqual([typeof body.published_at, body.archived_at, body.layers], ['string', null, ['0'.repeat(64)]])
  assert.equal((await w.get(long('/base'))).body.organization_id, null)
})

test("another organization's template and a missing version are not found", async () => {
  assert.deepEqual(said(await w.get('/v1/templates/of-b')), [404, 'not_found', undefined])
  assert.deepEqual(said(await w.get(long('/of-b'))), [404, 'not_found', undefined])
  assert.deepEqual(said(await w.get(long('/of-b', w.b.organization_id))), [404, 'not_found', undefined])
  assert.deepEqual(said(await w.get('/v1/templates/own/versions/9')), [404, 'not_found', 'version_not_found'])
  assert.equal((await w.get('/v1/templates/own/versions/0')).status, 422)
})

test('an unpublished version is never opened; publishing makes it the latest, and a repeat changes nothing', async () => {
  const version = await unpublishedVersion(w, w.a.organization_id, 'own', SETTINGS)
  const opened = async (key: string) => (await w.open(key, { template: 'own' })).body.workspace.template.version
  assert.deepEqual([(await w.get('/v1/templates/own')).body.latest_version, await opened('before')], [1, 1])
  const first = await w.post(`/v1/templates/own/versions/${version}/publish`, undefined, { as: owner })
  assert.deepEqual([first.status, typeof first.body.published_at], [200, 'string'])
  const again = await w.post(long(`/own/versions/${version}/publish`), undefined, { as: owner })
  assert.deepEqual(again.body, first.body)
  assert.deepEqual([(await w.get('/v1/templates/own')).body.latest_version, await opened('after')], [version, version])
  const { body } = await w.open('before', { template: 'own' })
  assert.equal(body.workspace.template.version, 1)
})

test('an archived version is not the latest and cannot be published, and its workspaces go on', async () => {
  const version = await unpublishedVersion(w, w.a.organization_id, 'own', SETTINGS)
  await w.post(`/v1/templates/own/versions/${version}/publish`, undefined, { as: owner })
  await w.open('of-archived', { template: 'own' })
  const archived = await w.post(`/v1/templates/own/versions/${version}/archive`, undefined, { as: owner })
  assert.deepEqual([archived.status, typeof archived.body.archived_at], [200, 'string'])
  assert.deepEqual((await w.post(`/v1/templates/own/versions/${version}/archive`, undefined, { as: owner })).body, archived.body)
  assert.deepEqual(said(await w.post(`/v1/templates/own/versions/${version}/publish`, undefined, { as: owner })), [
    409,
    'conflict',
    'version_archived',
  ])
  const of_organization = `/v1/organizations/${w.a.organization_id}/templates/own/versions/${version}/publish`
  assert.deepEqual(said(await w.post(of_organization, undefined, { as: owner })), [409, 'conflict', 'version_archived'])
  assert.notEqual((await w.get('/v1/templates/own')).body.latest_version, version)
  assert.equal((await w.open('of-archived', { template: 'own' })).body.workspace.template.version, version)
})

test('no version of an archived template can be published', async () => {
  await seeds.template(w.a.organization_id, 'old', SETTINGS)
  const version = await unpublishedVersion(w, w.a.organization_id, 'old', SETTINGS)
  await w.database.superuser.updateTable('templates').set({ archived_at: w.clock.now() }).where('slug', '=', 'old').execute()
  for (const form of ['/v1/templates', long()]) {
    const refused = await w.post(`${form}/old/versions/${version}/publish`, undefined, { as: owner })
    assert.deepEqual(said(refused), [409, 'conflict', 'template_archived'])
  }
  const last = await w.post(long(`/old/versions/${version}/archive`), undefined, { as: owner })
  assert.equal(last.status, 200)
  const archived = await w.post(long(`/old/versions/${version}/publish`), undefined, { as: owner })
  assert.deepEqual(said(archived), [409, 'conflict', 'template_archived'])
})

test("every tenant reads the platform's templates, and operators alone publish and archive them", async () => {
  for (const form of ['/v1/templates', long()]) {
    for (const verb of ['publish', 'archive']) {
      const refused = await w.post(`${form}/base/versions/1/${verb}`, undefined, { as: owner })
      assert.deepEqual(said(refused), [422, 'validation_failed', 'platform_template_slug'])
    }
  }
})

test('publish and archive are for owners and admins, never for keys', async () => {
  const member = (await seeds.person(w.a.organization_id, 'member')).token
  for (const form of ['/v1/templates', long()]) {
    for (const verb of ['publish', 'archive']) {
      const path = `${form}/own/versions/1/${verb}`
      for (const as of [w.a.key, member]) assert.deepEqual(said(await w.post(path, undefined, { as })), [403, 'forbidden', undefined])
      assert.deepEqual(said(await w.post(`${form}/own/versions/99/${verb}`, undefined, { as: owner })), [
        404,
        'not_found',
        'version_not_found',
      ])
    }
  }
})

test('the long form tells apart two templates with one slug in two organizations of one person', async () => {
  const { id, token } = await seeds.person(w.a.organization_id, 'owner')
  await w.database.superuser
    .insertInto('memberships')
    .values({ organization_id: w.b.organization_id, person_id: id, role: 'owner', created_at: w.clock.now() })
    .execute()
  await seeds.template(w.b.organization_id, 'own', SETTINGS)
  const refused = await w.get('/v1/templates/own', { as: token })
  assert.deepEqual([refused.status, refused.body.error.details.issues[0].path], [422, 'slug'])
  assert.equal((await w.get(long('/own', w.b.organization_id), { as: token })).body.organization_id, w.b.organization_id)
})

test('two concurrent publishes of one version return the same time, which is recorded once', async () => {
  const version = await unpublishedVersion(w, w.a.organization_id, 'own', SETTINGS)
  const answers = await Promise.all([1, 2, 3].map(() => w.post(`/v1/templates/own/versions/${version}/publish`, undefined, { as: owner })))
  assert.deepEqual(new Set(answers.map(({ body }) => body.published_at)).size, 1)
  const records = await w.database.superuser
    .selectFrom('audit_events')
    .select('details')
    .where('action', 'like', 'template-versions.publish%')
    .where('subject_id', '=', answers[0]?.body.id)
    .execute()
  assert.equal(records.length, 1)
})
