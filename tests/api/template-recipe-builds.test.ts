import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { unpublishedVersion } from '../support/template-versions.ts'
import { until } from '../support/processes.ts'
import { seeder, SETTINGS, world, type Answer } from './support.ts'
import { worldWithCell, type CellWorld } from './with-cell.ts'

let w: CellWorld
let seeds: ReturnType<typeof seeder>
const said = ({ status, body }: Answer) => (status < 400 ? status : [status, body.error.code, body.error.details?.reason])
const FORMS = {
  short: (slug: string) => `/v1/templates/${slug}/builds`,
  long: (slug: string) => `/v1/organizations/${w.a.organization_id}/templates/${slug}/builds`,
}
const build = (slug: string, body: object, form: keyof typeof FORMS = 'short') => w.post(FORMS[form](slug), body)
async function finished(build_id: string): Promise<Answer['body']> {
  let body: Answer['body'] = null
  await until('the build is over', 60_000, async () => {
    body = (await w.get(`/v1/template-builds/${build_id}`, { headers: { prefer: 'wait=20' } })).body
    return body.completed_at !== null
  })
  return body
}
async function uploaded(text: string): Promise<string> {
  const bytes = Buffer.from(text)
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  const { id } = (await w.post('/v1/template-uploads', { size_bytes: bytes.length, sha256 })).body
  const headers = { authorization: `Bearer ${w.a.key}`, 'content-type': 'application/octet-stream' }
  await fetch(`${w.base}/v1/template-uploads/${id}?offset=0`, { method: 'PUT', headers, body: bytes })
  return id
}
const versions = () => w.database.superuser.updateTable('template_versions')
const CEILING = { mode: 'allowlist', rules: [{ host: 'ok.example', ports: [443], protocols: ['tcp'] }], cidrs: [] }
async function specOf(slug: string): Promise<Record<string, never>> {
  const { spec } = await w.database.superuser
    .selectFrom('template_builds as b')
    .innerJoin('templates as t', 't.id', 'b.template_id')
    .select('b.spec')
    .where('t.slug', '=', slug)
    .orderBy('b.created_at', 'desc')
    .executeTakeFirstOrThrow()
  return spec as Record<string, never>
}

before(async () => {
  w = await worldWithCell()
  seeds = seeder(w.database, w.clock, w.ids)
  const { organization_id } = w.a
  await seeds.template(organization_id, 'copies', SETTINGS, false)
  for (const slug of ['archived', 'old', 'draft', 'narrow', 'several']) await seeds.template(organization_id, slug, SETTINGS)
  const { superuser: db } = w.database
  await db.updateTable('templates').set({ archived_at: w.clock.now() }).where('slug', '=', 'archived').execute()
  const of = async (slug: string) => (await db.selectFrom('templates').select('id').where('slug', '=', slug).executeTakeFirstOrThrow()).id
  await versions()
    .set({ archived_at: w.clock.now() })
    .where('template_id', '=', await of('old'))
    .execute()
  await versions()
    .set({ published_at: null })
    .where('template_id', '=', await of('draft'))
    .execute()
  await versions()
    .set({ egress: JSON.stringify(CEILING) })
    .where('template_id', '=', await of('narrow'))
    .execute()
  await unpublishedVersion(w, organization_id, 'several', SETTINGS)
})
after(() => w[Symbol.asyncDispose]())

test("a recipe becomes a version of a new template, with its base's settings and its own", async () => {
  const recipe = { base: 'base', env: { MADE: 'yes' }, defaults: { memory_mib: 512 }, services: [{ name: 'web', argv: ['/srv/web'] }] }
  const { status, body } = await build('made', { recipe, auto_publish: true, description: 'What it is' })
  assert.deepEqual(
    [status, body.operation.kind, body.operation.id, body.operation.workspace_id, body.build.kind, body.build.template_slug],
    [202, 'template_build', body.build.operation_id, null, 'recipe', 'made'],
  )
  const done = await finished(body.build.id)
  assert.deepEqual([done.state, done.error, done.version, done.published], ['succeeded', null, 1, true])
  const base = (await w.get('/v1/templates/base/versions/1')).body
  const made = (await w.get('/v1/templates/made/versions/1')).body
  assert.deepEqual([made.layers, made.description, made.disk_layout], [base.layers, 'What it is', 'layered'])
  const { defaults, inputs } = base.settings
  assert.deepEqual(made.settings, {
    ...base.settings,
    inputs,
    env: { ...base.settings.env, MADE: 'yes' },
    defaults: { ...defaults, memory_mib: 512 },
    services: recipe.services,
  })
  const log = async () => (await w.get(`/v1/template-builds/${body.build.id}/log`)).body.text
  await until('the log is whole', 60_000, async () => /Version 1 is there/.test(await log()))
})

test("a build's steps, size, egress and upload are fixed when it is requested", async () => {
  const upload_id = await uploaded('a tar of sorts')
  const at = w.clock.now()
  const egress = { mode: 'allowlist', allow_hosts: ['ok.example', 'other.example'] }
  const recipe = { base: 'narrow@1', egress, steps: [{ copy: ['.'], to: '/srv/' }, { run: 'make' }], ceiling: { memory_mib: 512 } }
  const refused = await build('settled', { recipe, upload_id }, 'long')
  assert.deepEqual(said(refused), [422, 'validation_failed', 'invalid_settings'])
  const begun = await build('settled', { recipe: { ...recipe, defaults: { memory_mib: 256 } }, upload_id }, 'long')
  assert.equal(begun.status, 202)
  const spec = await specOf('settled')
  const steps = spec['steps'] as unknown as { kind: string; env?: object }[]
  assert.deepEqual(
    steps.map(({ kind }) => kind),
    ['copy', 'run'],
  )
  assert.deepEqual([steps[1]?.env, spec['resources']], [SETTINGS.env, { cpu_millis: 2000, memory_mib: 256, disk_gib: 10 }])
  assert.deepEqual([spec['egress'], spec['ceiling']], [CEILING, CEILING])
  const upload = spec['upload'] as unknown as { id: string; parts: object[] }
  assert.deepEqual([upload.id, upload.parts.length], [upload_id, 1])
  const { used_at } = await w.database.superuser
    .selectFrom('template_uploads')
    .select('used_at')
    .where('id', '=', upload_id)
    .executeTakeFirstOrThrow()
  assert.ok(used_at >= at)
  await w.post(`/v1/template-builds/${begun.body.build.id}/cancel`)
})

test('a Dockerfile becomes a recipe with the values of its build arguments', async () => {
  const dockerfile = 'ARG V=1\nFROM base\nARG V\nENV WHICH=$V\nVOLUME /data\nEXPOSE 8080\nCMD ["serve"]'
  const { body } = await build('docked', { dockerfile, build_args: { V: '2' } })
  assert.equal((await finished(body.build.id)).state, 'succeeded')
  const { settings, published_at } = (await w.get('/v1/templates/docked/versions/1')).body
  assert.deepEqual([settings.env.WHICH, settings.services[0].argv, settings.services[0].ready], ['2', ['serve'], { port: 8080 }])
  assert.equal(published_at, null)
  const log = async () => (await w.get(`/v1/template-builds/${body.build.id}/log`)).body.text
  await until('the log has the warning', 60_000, async () => /^==> warning: line 5: VOLUME is ignored: /m.test(await log()))
  const wrong = await build('docked', { dockerfile: 'FROM base\nNONSENSE\nCOPY --from=x a b' })
  assert.deepEqual(said(wrong), [422, 'validation_failed', 'invalid_recipe'])
  assert.match(wrong.body.error.details.issues[0].message, /^line 2: /)
  assert.deepEqual([wrong.body.error.message, wrong.body.error.details.issues.length], ['The recipe is not valid', 2])
})

const of = (recipe: object) => ({ recipe: { base: 'base', ...recipe } })
const many = <T>(count: number, one: (at: number) => T) => Array.from({ length: count }, (_, at) => one(at))
const { files_max, steps_max, hosts_max } = LIMITS.build
const REFUSED: [reason: string | undefined, body: object, slug?: string][] = [
  ['invalid_recipe', {}],
  ['invalid_recipe', { ...of({}), dockerfile: 'FROM base' }],
  ['invalid_recipe', { ...of({}), build_args: { A: 'b' } }],
  ['invalid_recipe', of({ base: 'no base' })],
  ['invalid_recipe', { dockerfile: `FROM base\nUSER ${'u'.repeat(65)}\nRUN true` }],
  ['invalid_path', of({ steps: [{ run: 'true', cwd: 'here' }] })],
  ['platform_owned_path', of({ files: [{ path: '/proc/x', content: '' }] })],
  ['invalid_package', of({ packages: ['No!'] })],
  ['invalid_host', of({ egress: { mode: 'auto', extra_hosts: ['no host'] } })],
  ['language_unavailable', of({ languages: [{ name: 'cobol' }] })],
  ['language_conflict', of({ languages: [{ name: 'node' }, { name: 'node' }] })],
  ['too_many_files', of({ files: many(files_max + 1, (at) => ({ path: `/srv/${at}`, content: '' })) })],
  ['too_many_steps', of({ steps: many(steps_max + 1, () => ({ run: 'true' })) })],
  ['too_many_hosts', of({ egress: { mode: 'allowlist', allow_hosts: many(hosts_max + 1, (at) => `h${at}.example`) } })],
  ['recipe_too_large', of({ files: many(2, (at) => ({ path: `/srv/${at}`, content: 'x'.repeat(300_000) })) })],
  ['extra_hosts_without_auto', of({ egress: { mode: 'deny_all', extra_hosts: ['a.example'] } })],
  ['allow_hosts_without_allowlist', of({ egress: { mode: 'auto', allow_hosts: ['a.example'] } })],
  ['allowlist_empty', of({ egress: { mode: 'allowlist' } })],
  ['upload_required', of({ steps: [{ copy: ['.'], to: '/srv' }] })],
  ['upload_missing', { ...of({}), upload_id: randomUUID() }],
  ['base_required', { recipe: {} }],
  ['base_not_found', of({ base: 'nothing' })],
  ['base_not_found', of({ base: 'base@7' })],
  ['base_archived', of({ base: 'archived' })],
  ['base_archived', of({ base: 'old@1' })],
  ['base_not_published', of({ base: 'draft' })],
  ['base_not_published', of({ base: 'several@2' })],
  ['base_not_layered', of({ base: 'copies' })],
  ['architecture_not_supported', of({ architecture: 'arm64' })],
  ['invalid_settings', of({ defaults: { memory_mib: 1_000_000 } })],
  ['egress_widening', { ...of({ base: 'narrow' }), egress_ceiling: { mode: 'allow_all' } }],
  ['platform_template_slug', of({}), 'base'],
  ['reserved_template_slug', of({}), 'desktop'],
  [undefined, { ...of({}), egress_ceiling: { mode: 'allowlist', rules: [{ host: 'no host' }] } }],
]

for (const form of ['short', 'long'] as const) {
  test(`each reason against a build, in the ${form} form, leaves no template behind`, async () => {
    for (const [reason, body, slug = 'refused'] of REFUSED) {
      assert.deepEqual(said(await build(slug, body, form)), [422, 'validation_failed', reason])
    }
    assert.equal((await w.get('/v1/templates/refused')).status, 404)
    assert.deepEqual(said(await build('archived', of({}), form)), [409, 'conflict', 'template_archived'])
    const other = await build('refused', { ...of({}), project_id: w.b.project_id }, form)
    assert.deepEqual(said(other), [404, 'not_found', undefined])
  })

  test(`without uploads, a build that names one says so in the ${form} form`, async () => {
    await using none = await world({ uploads_dir: '' })
    const path = form === 'short' ? FORMS.short('x') : `/v1/organizations/${none.a.organization_id}/templates/x/builds`
    const answer = await none.post(path, { ...of({}), upload_id: randomUUID() })
    assert.deepEqual(said(answer), [503, 'dependency_unavailable', 'uploads_not_configured'])
  })
}

test('an incomplete upload and one of another project cannot be used by a build', async () => {
  const { id } = (await w.post('/v1/template-uploads', { size_bytes: 2, sha256: '0'.repeat(64) })).body
  assert.deepEqual(said(await build('lacking', { ...of({}), upload_id: id })), [422, 'validation_failed', 'upload_missing'])
  const other = { ...of({}), upload_id: await uploaded('of a') }
  const refused = await w.post(FORMS.short('lacking'), other, { as: w.a2.key })
  assert.deepEqual(said(refused), [422, 'validation_failed', 'upload_missing'])
})

test("an upload can be a base: a machine on the platform's base unpacks it, with that base's sizes and egress alone", async () => {
  const id = await uploaded('a root file system of sorts')
  const held = Promise.withResolvers<void>()
  using _ = w.host.intercept('start', 'before', () => held.promise)
  const begun = await build('uploaded', { dockerfile: `FROM upload:${id}\nENV OF=us\nRUN true` })
  assert.equal(begun.status, 202)
  const spec = await specOf('uploaded')
  const base = (await w.get('/v1/templates/base/versions/1')).body
  const upload = spec['base_upload'] as unknown as { id: string; layers: string[] }
  assert.deepEqual([spec['layers'], upload.id, upload.layers], [[], id, base.layers])
  const settings = spec['settings'] as unknown as { env: Record<string, string>; defaults: object }
  assert.deepEqual([Object.keys(settings.env).sort(), settings.defaults], [['OF', 'PATH'], SETTINGS.defaults])
  await w.post(`/v1/template-builds/${begun.body.build.id}/cancel`)
  held.resolve()
  const other = await w.post(FORMS.short('uploaded'), of({ base: `upload:${id}` }), { as: w.a2.key })
  assert.deepEqual([said(other), other.body.error.details.field], [[422, 'validation_failed', 'upload_missing'], 'base'])
  await using none = await world({ uploads_dir: '' })
  const without = await none.post(FORMS.short('x'), of({ base: `upload:${id}` }))
  assert.deepEqual(said(without), [503, 'dependency_unavailable', 'uploads_not_configured'])
})

test("a ceiling below the base's belongs to the version; people name the project", async () => {
  const admin = await seeds.person(w.a.organization_id, 'admin')
  const egress_ceiling = { mode: 'deny_all' }
  const body = { ...of({ base: 'narrow' }), egress_ceiling }
  assert.deepEqual(said(await w.post(FORMS.long('narrower'), body, { as: admin.token })), [422, 'validation_failed', undefined])
  const begun = await w.post(FORMS.long('narrower'), { ...body, project_id: w.a.project_id }, { as: admin.token })
  assert.equal((await finished(begun.body.build.id)).state, 'succeeded')
  assert.equal((await w.get('/v1/templates/narrower/versions/1')).body.egress.mode, 'deny_all')
})

test("a build that is canceled during its machine's start makes no version and releases its capacity", async () => {
  const held = Promise.withResolvers<void>()
  const asked = Promise.withResolvers<void>()
  using _ = w.host.intercept('start', 'before', () => {
    asked.resolve()
    return held.promise
  })
  const { body } = await build('ended', of({ steps: [{ run: 'true' }] }))
  await asked.promise
  const canceled = await w.post(`/v1/template-builds/${body.build.id}/cancel`)
  assert.deepEqual([canceled.status, canceled.body.state], [200, 'canceled'])
  held.resolve()
  assert.equal((await w.get('/v1/templates/ended')).body.latest_version, null)
  await until('its room is free', 60_000, async () => {
    const rows = await w.database.superuser.selectFrom('machines').select('id').where('kind', '=', 'build').execute()
    return rows.length === 0
  })
})

test('a key can publish into no template of others by any route, and cannot build commands without exec', async () => {
  const { organization_id, project_id } = w.a
  const files = (await seeds.key(organization_id, project_id, ['files'])).key
  const id = await w.ready('publishes-nothing')
  const draft = async (slug: string) => {
    await seeds.template(organization_id, slug, SETTINGS)
    const opened = await w.post(`/v1/templates/${slug}/draft`, { inputs: { CITY: 'Rome' } }, { headers: { prefer: 'wait=20' } })
    assert.equal(opened.status, 200)
  }
  await draft('of-people')
  await draft('of-people-too')
  const settings = { start: [{ name: 'x', argv: ['/bin/true'] }] }
  const long = `/v1/organizations/${organization_id}/templates`
  const recipe = { base: 'base' }
  const calls: Record<string, { path: string; body: object; commands: object }> = {
    'template-builds.create': {
      path: '/v1/templates/of-people/builds',
      body: { recipe },
      commands: { recipe: { ...recipe, ...settings } },
    },
    'template-builds.create_of_organization': {
      path: `${long}/of-people/builds`,
      body: { recipe },
      commands: { recipe: { ...recipe, services: settings.start } },
    },
    'workspaces.save_as_template': {
      path: `/v1/workspaces/${id}/save-as-template`,
      body: { template_slug: 'of-people' },
      commands: { settings },
    },
    'drafts.publish': { path: '/v1/templates/of-people/draft/publish', body: {}, commands: { settings } },
    'drafts.publish_of_organization': { path: `${long}/of-people-too/draft/publish`, body: {}, commands: { settings } },
  }
  const publishing = APP_ROUTES.filter(
    ({ body }) => body !== undefined && body !== 'bytes' && 'auto_publish' in ((body as { properties?: object }).properties ?? {}),
  )
  assert.deepEqual(publishing.map((route) => route.id).sort(), Object.keys(calls).sort())
  for (const [route, { path, body, commands }] of Object.entries(calls)) {
    const published = await w.post(path, { ...body, auto_publish: true })
    assert.deepEqual(said(published), [403, 'forbidden', 'template_not_of_project'], route)
    const { status, body: refused } = await w.post(path, { ...body, ...commands }, { as: files })
    assert.deepEqual([status, refused.error?.details?.denied_tools], [403, ['exec']], route)
    assert.equal((await w.post(path, body, { as: files })).status, 202, route)
    await until('nothing is captured', 60_000, async () => (await w.get(`/v1/workspaces/${id}`)).body.active_operation === null)
  }
  const own = { recipe, auto_publish: true }
  assert.equal((await build('of-a', own)).status, 202)
  assert.deepEqual(said(await w.post(FORMS.short('of-a'), own, { as: w.a2.key })), [403, 'forbidden', 'template_not_of_project'])
  assert.equal(said(await w.post('/v1/templates/of-people/versions/1/publish')).toString(), '403,forbidden,')
  const admin = await seeds.person(organization_id, 'admin')
  assert.equal((await w.post(FORMS.long('of-a'), { ...own, project_id }, { as: admin.token })).status, 202)
})
