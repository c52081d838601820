import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../support/processes.ts'
import { unpublishedVersion } from '../support/template-versions.ts'
import { type Answer, seeder, SETTINGS, type World, world } from './support.ts'

let w: World
let seeds: ReturnType<typeof seeder>
before(async () => {
  w = await world()
  seeds = seeder(w.database, w.clock, w.ids)
  await seeds.template(w.a.organization_id, 'own', SETTINGS)
})
after(() => w[Symbol.asyncDispose]())

const FORMS = ['/v1/templates', 'long'] as const
const path = (form: (typeof FORMS)[number], slug = 'own', version = 1) =>
  `${form === 'long' ? `/v1/organizations/${w.a.organization_id}/templates` : form}/${slug}/versions/${version}/test-instances`
const said = ({ status, body }: Answer) => (status < 400 ? status : [status, body.error.code, body.error.details?.reason])

for (const form of FORMS) {
  test(`${form}: a test instance is a layered session of the version, published or not, under a key of the service's own`, async () => {
    const version = await unpublishedVersion(w, w.a.organization_id, 'own', SETTINGS)
    const { status, body } = await w.post(path(form, 'own', version), { inputs: { CITY: 'Rome' } })
    const { workspace, operation } = body
    assert.deepEqual([status, operation.kind, body.tool_token], [202, 'open', null])
    assert.match(workspace.key, /^sf:test:own:[0-9a-f]{8}$/)
    assert.deepEqual(
      [workspace.purpose, workspace.lifetime, workspace.disk_layout, workspace.template],
      ['template_test', 'session', 'layered', { slug: 'own', version }],
    )
    const { id: template_id } = (await w.get('/v1/templates/own')).body
    assert.deepEqual(workspace.origin, { kind: 'template_version', template_id, version })
    assert.deepEqual((await w.get(`/v1/workspaces/${workspace.id}/inputs`)).body, { CITY: 'Rome', COLOUR: 'blue' })
    const listed = async (query: string) => (await w.get(`/v1/workspaces?${query}`)).body.data.map(({ id }: { id: string }) => id)
    assert.ok(!(await listed('')).includes(workspace.id))
    assert.ok((await listed('purpose=template_test&lifetime=session')).includes(workspace.id))
    await w.cell.succeed(operation.id)
    assert.equal((await w.post(`/v1/workspaces/${workspace.id}/close`)).status, 202)
  })

  test(`${form}: of a key that lives the same one answers, ready with a token; when it has ended a new one`, async () => {
    const key = `try-${form}`
    const first = await w.post(path(form), { key })
    assert.equal((await w.post(path(form), { key })).body.operation.id, first.body.operation.id)
    await w.cell.succeed(first.body.operation.id)
    const ready = await w.post(path(form), { key })
    assert.deepEqual([ready.status, ready.body.workspace.id, typeof ready.body.tool_token.token], [200, first.body.workspace.id, 'string'])
    await w.post(`/v1/workspaces/${first.body.workspace.id}/reset`, { confirm_destructive: true })
    assert.deepEqual(said(await w.post(path(form), { key })), [409, 'conflict', 'operation_in_progress'])
    await w.cell.succeed((await w.post(`/v1/workspaces/${first.body.workspace.id}/close`)).body.id)
    const next = await w.post(path(form), { key })
    assert.deepEqual([next.status, next.body.workspace.id === first.body.workspace.id], [202, false])
  })

  test(`${form}: one that is there keeps its inputs and caps, and the answer names what it did not apply`, async () => {
    const [key, inputs, caps] = [`keeps-${form}`, { CITY: 'Rome' }, { cpu_millis: 1000 }]
    const held = w.call('POST', path(form), { body: { key, inputs, caps }, headers: { prefer: 'wait=20' } })
    await w.cell.succeed(await operationOf(key))
    const first = await held
    assert.deepEqual([first.status, first.headers.get('preference-applied'), first.body.operation.state], [200, 'wait=20', 'succeeded'])
    const asked = async (body: object) => (await w.post(path(form), { key, ...body })).body.ignored
    assert.deepEqual([first.body.ignored, await asked({}), await asked({ inputs, caps })], [[], [], []])
    assert.deepEqual(await asked({ inputs: { CITY: 'Oslo' }, caps: {} }), ['caps', 'inputs'])
    assert.deepEqual(said(await w.post(path(form), { key, inputs: { TOWN: 'Oslo' } })), [422, 'validation_failed', 'input_unknown'])
    assert.deepEqual((await w.get(`/v1/workspaces/${first.body.workspace.id}/inputs`)).body, { ...inputs, COLOUR: 'blue' })
  })

  test(`${form}: what it is refused for`, async () => {
    const version = await unpublishedVersion(w, w.a.organization_id, 'own', SETTINGS)
    const refusal = async (body: object, slug = 'own', of = 1) => said(await w.post(path(form, slug, of), body))
    await w.running(`standard-${form}`)
    assert.deepEqual(await refusal({ key: `standard-${form}` }), [409, 'conflict', 'key_in_use'])
    await w.post(path(form), { key: `other-version-${form}` })
    assert.deepEqual(await refusal({ key: `other-version-${form}` }, 'own', version), [409, 'conflict', 'key_in_use'])
    assert.deepEqual(await refusal({ key: 'sf:mine' }), [422, 'validation_failed', 'reserved_key_prefix'])
    assert.deepEqual(await refusal({}, 'base'), [422, 'validation_failed', 'platform_template_slug'])
    assert.deepEqual(await refusal({}, 'none'), [404, 'not_found', undefined])
    assert.deepEqual(await refusal({}, 'own', 99), [404, 'not_found', 'version_not_found'])
    assert.deepEqual(await refusal({ tools: ['git'] }), [403, 'forbidden', undefined])
    assert.deepEqual(await refusal({ inputs: { TOWN: 'Rome' } }), [422, 'validation_failed', 'input_unknown'])
    assert.deepEqual(await refusal({ inputs: { CITY: 1 } }), [422, 'validation_failed', 'input_invalid'])
    const slug = form === 'long' ? 'long' : 'short'
    await seeds.template(w.a.organization_id, `copies-${slug}`, SETTINGS, false)
    assert.deepEqual(await refusal({}, `copies-${slug}`), [409, 'conflict', 'template_not_layered'])
    await seeds.template(w.a.organization_id, `needy-${slug}`, { ...SETTINGS, inputs: { NEED: { required: true } } })
    assert.deepEqual(await refusal({}, `needy-${slug}`), [422, 'validation_failed', 'input_required'])
    await w.post(`/v1/projects/${w.a.project_id}/secrets`, { name: 'HOME', value: 'v' })
    await seeds.template(w.a.organization_id, `hidden-${slug}`, { ...SETTINGS, inputs: { HOME: { kind: 'secret' } } })
    assert.deepEqual(await refusal({}, `hidden-${slug}`), [422, 'validation_failed', 'env_collision'])
    await seeds.template(w.a.organization_id, `old-${slug}`, SETTINGS)
    await w.database.superuser.updateTable('templates').set({ archived_at: w.clock.now() }).where('slug', '=', `old-${slug}`).execute()
    assert.deepEqual(await refusal({}, `old-${slug}`), [409, 'conflict', 'template_archived'])
  })

  test(`${form}: members and keys without tools are told that they work on no templates; owners name a project of the organization`, async () => {
    const as = async (token: string, body: object = {}) => said(await w.post(path(form), body, { as: token }))
    const role = [403, 'forbidden', 'template_dev_mode_role']
    const { project_id } = w.a
    assert.deepEqual(await as((await seeds.person(w.a.organization_id, 'member')).token, { project_id }), role)
    assert.deepEqual(await as((await seeds.key(w.a.organization_id, project_id, [])).key), role)
    const owner = (await seeds.person(w.a.organization_id, 'owner')).token
    assert.deepEqual(await as(owner), [422, 'validation_failed', undefined])
    assert.deepEqual(await as(owner, { project_id: w.b.project_id }), [404, 'not_found', undefined])
    assert.equal(await as(owner, { project_id }), 202)
  })
}

async function operationOf(key: string): Promise<string> {
  const found = w.database.superuser
    .selectFrom('operations as o')
    .innerJoin('workspaces as s', 's.id', 'o.workspace_id')
    .select('o.id')
    .where('s.key', '=', key)
  await until('the operation is there', 30_000, async () => (await found.executeTakeFirst()) !== undefined)
  return (await found.executeTakeFirstOrThrow()).id
}
