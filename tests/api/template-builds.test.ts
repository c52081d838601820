import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { HostFailure } from '../../service/cell/host/hostd.ts'
import { armFailpoint } from '../../service/lib/failpoints.ts'
import { until } from '../support/processes.ts'
import { seeder, SETTINGS, type Answer } from './support.ts'
import { worldWithCell, type CellWorld } from './with-cell.ts'

let w: CellWorld
let seeds: ReturnType<typeof seeder>
before(async () => {
  w = await worldWithCell()
  seeds = seeder(w.database, w.clock, w.ids)
})
after(() => w[Symbol.asyncDispose]())

const said = ({ status, body }: Answer) => (status < 400 ? status : [status, body.error.code, body.error.details?.reason])
const save = (id: string, body: object = {}, options = {}) =>
  w.post(`/v1/workspaces/${id}/save-as-template`, { template_slug: 'saved', ...body }, options)
const buildOf = async (id: string) => (await w.get(`/v1/template-builds/${id}`)).body
async function finished(build_id: string): Promise<Answer['body']> {
  let build = await buildOf(build_id)
  await until('the build is over', 60_000, async () => {
    build = (await w.get(`/v1/template-builds/${build_id}`, { headers: { prefer: 'wait=20' } })).body
    return build.completed_at !== null
  })
  return build
}
let keys = 0
const running = async () => w.ready(`builds-${(keys += 1)}`)
const write = (id: string, path: string, text: string) => void w.host.guest(id).files.set(path, text)
const version = async (slug: string, number: number) => (await w.get(`/v1/templates/${slug}/versions/${number}`)).body

test("a workspace's content becomes a version above its template, and a new workspace of it begins with that content", async () => {
  const id = await running()
  write(id, '/home/user/kept', 'text')
  write(id, '/tmp/gone', 'text')
  const { status, body } = await save(id, { template_slug: 'first', display_name: 'First', description: 'What it is', auto_publish: true })
  assert.deepEqual(
    [status, body.operation.kind, body.operation.workspace_id, body.build.kind],
    [202, 'layer_snapshot', id, 'save_as_template'],
  )
  const build = await finished(body.build.id)
  assert.deepEqual([build.state, build.error, build.version, build.published, build.scan_findings], ['succeeded', null, 1, true, []])
  const base = await version('base', 1)
  const made = await version('first', 1)
  assert.deepEqual([made.layers.slice(0, -1), made.layers.length], [base.layers, Number(base.layers.length) + 1])
  assert.deepEqual(made.settings.env, {})
  const { defaults } = made.settings
  assert.deepEqual(
    [defaults.lifetime, defaults.idle_policy, defaults.memory_mib],
    ['persistent', 'adaptive', base.settings.defaults.memory_mib],
  )
  const opened = await w.ready('builds-of-first', { template: 'first' })
  assert.deepEqual([...w.host.guest(opened).files], [['/home/user/kept', 'text']])
  assert.equal((await w.get(`/v1/workspaces/${id}`)).body.observed_state, 'running')
  const template = (await w.get('/v1/templates/first')).body
  assert.deepEqual([template.display_name, template.description, template.latest_version], ['First', 'What it is', 1])
})

test('a second save is the next version, with the given settings; without auto_publish no open uses it', async () => {
  const id = await running()
  const settings = { env: { A: '1' }, inputs: { CITY: { default: 'Rome' } }, services: [{ name: 'web', argv: ['/srv/web'] }] }
  await finished((await save(id, { template_slug: 'second', auto_publish: true })).body.build.id)
  const build = await finished((await save(id, { template_slug: 'second', settings, defaults: { memory_mib: 512 } })).body.build.id)
  assert.deepEqual([build.version, build.published], [2, false])
  const made = (await version('second', 2)).settings
  assert.deepEqual(
    [made.env, made.inputs, made.services, made.defaults.memory_mib],
    [settings.env, settings.inputs, settings.services, 512],
  )
  assert.equal((await w.get('/v1/templates/second')).body.latest_version, 1)
})

test('suspected secrets are listed, and block publishing until they are acknowledged', async () => {
  const id = await running()
  write(id, '/home/user/.env', 'KEY=FAKE-SECRET')
  const first = await finished((await save(id, { template_slug: 'leaky', auto_publish: true })).body.build.id)
  assert.deepEqual([first.published, first.scan_findings], [false, [{ path: '/home/user/.env', rule: 'fake_secret', line: 1 }]])
  assert.deepEqual((await version('leaky', 1)).scan_findings, first.scan_findings)
  const body = { template_slug: 'leaky', auto_publish: true, acknowledged_scan_findings: ['/home/user/.env'] }
  const second = await finished((await save(id, body)).body.build.id)
  assert.deepEqual([second.version, second.published, second.scan_findings], [2, true, []])
})

test('a build of a checkpoint needs no running workspace and captures nothing', async () => {
  const id = await running()
  write(id, '/home/user/kept', 'then')
  const snapshot = await w.ended((await w.post(`/v1/workspaces/${id}/snapshot`)).body.id)
  write(id, '/home/user/kept', 'later')
  await w.ended((await w.post(`/v1/workspaces/${id}/suspend`)).body.id)
  const suspended = await save(id)
  assert.deepEqual([said(suspended), suspended.body.error.retryable], [[409, 'conflict', 'workspace_not_running'], false])
  const { checkpoint_id } = snapshot.result
  const { status, body } = await save(id, { template_slug: 'pointed', checkpoint_id, auto_publish: true })
  assert.deepEqual([status, body.operation], [202, null])
  assert.equal((await finished(body.build.id)).state, 'succeeded')
  const opened = await w.ready('builds-of-pointed', { template: 'pointed' })
  assert.equal(w.host.guest(opened).files.get('/home/user/kept'), 'then')
})

test('a save is refused for each of its reasons', async () => {
  const id = await running()
  const refusal = async (body: object) => said(await save(id, body))
  assert.deepEqual(await refusal({ template_slug: 'base' }), [422, 'validation_failed', 'platform_template_slug'])
  assert.deepEqual(await refusal({ defaults: { memory_mib: 1_000_000 } }), [422, 'validation_failed', 'invalid_defaults'])
  assert.deepEqual(await refusal({ settings: { update_policy: 'automatic' } }), [422, 'validation_failed', 'update_policy_not_available'])
  const many = Array.from({ length: 201 }, (_, index) => `/a/${index}`)
  assert.deepEqual(await refusal({ acknowledged_scan_findings: many }), [422, 'validation_failed', 'too_many_acknowledged_findings'])
  for (const path of ['relative', '/a/../b', '/a//b', '/a/', '/', ''])
    assert.deepEqual(await refusal({ acknowledged_scan_findings: [path] }), [422, 'validation_failed', 'invalid_path'], path)
  assert.deepEqual(await refusal({ checkpoint_id: randomUUID() }), [404, 'not_found', 'checkpoint_not_found'])
  assert.deepEqual(said(await w.post(`/v1/workspaces/${id}/save-as-template`, { template_slug: 'No' })), [
    422,
    'validation_failed',
    undefined,
  ])
  const own = await seeds.template(w.a.organization_id, 'gone', SETTINGS)
  assert.ok(own)
  await w.database.superuser.updateTable('templates').set({ archived_at: w.clock.now() }).where('slug', '=', 'gone').execute()
  assert.deepEqual(await refusal({ template_slug: 'gone' }), [409, 'conflict', 'template_archived'])
  const asked = Promise.withResolvers<void>()
  {
    using _ = armFailpoint('suspend.S2', () => asked.promise)
    const suspend = await w.post(`/v1/workspaces/${id}/suspend`)
    assert.deepEqual(await refusal({}), [409, 'conflict', 'operation_in_progress'])
    asked.resolve()
    await w.ended(suspend.body.id)
  }
  await w.call('DELETE', `/v1/workspaces/${id}`)
  assert.deepEqual(await refusal({}), [409, 'conflict', 'workspace_deleted'])
})

test('a workspace on a full copy of its template has no layer to save', async () => {
  await seeds.template(w.a.organization_id, 'copies', SETTINGS, false)
  const id = await w.ready('builds-copy', { template: 'copies' })
  assert.deepEqual(said(await save(id)), [409, 'conflict', 'legacy_disk_layout'])
})

test("concurrent builds beyond the plan's limit are refused", async () => {
  const id = await running()
  const limit = (concurrent_template_builds: number | null) =>
    w.database.superuser.updateTable('plans').set({ concurrent_template_builds }).execute()
  await limit(0)
  const { status, body } = await save(id)
  const { entitlements } = (await w.get(`/v1/organizations/${w.a.organization_id}/entitlements`)).body
  await limit(null)
  assert.deepEqual(
    [status, body.error.code, body.error.details],
    [403, 'quota_exceeded', { limit: 'concurrent_template_builds', limit_value: 0, current: 0 }],
  )
  assert.deepEqual(
    entitlements.find(({ name }: { name: string }) => name === body.error.details.limit),
    { name: 'concurrent_template_builds', kind: 'value', value: 0 },
  )
})

test('a canceled build makes no version, and a finished one cannot be canceled', async () => {
  const id = await running()
  const held = Promise.withResolvers<void>()
  const asked = Promise.withResolvers<void>()
  using _ = w.host.intercept('makeLayer', 'before', () => {
    asked.resolve()
    return held.promise
  })
  const { build } = (await save(id, { template_slug: 'canceled' })).body
  await asked.promise
  const canceled = await w.post(`/v1/template-builds/${build.id}/cancel`)
  assert.deepEqual([canceled.status, canceled.body.state, canceled.body.error.code], [200, 'canceled', 'canceled'])
  held.resolve()
  assert.deepEqual(said(await w.post(`/v1/template-builds/${build.id}/cancel`)), [409, 'conflict', 'build_finished'])
  assert.equal((await w.get('/v1/templates/canceled')).body.latest_version, null)
  assert.deepEqual((await w.get('/v1/templates/canceled/versions')).body.data, [])
})

test('a build whose capture fails, or whose files make no layer, fails with its reason', async () => {
  const id = await running()
  {
    using _ = w.host.intercept('makeLayer', 'before', () => {
      throw new HostFailure('layer_refused', 'too large', { retryable: false, details: { why: 'too_large' } })
    })
    const build = await finished((await save(id, { template_slug: 'failed' })).body.build.id)
    assert.deepEqual(
      [build.state, build.error.code, build.error.details.reason, build.version],
      ['failed', 'dependency_failed', 'too_large', null],
    )
  }
  using _ = w.host.intercept('checkpoint', 'before', () => {
    throw new HostFailure('checkpoint_failed', 'no', { retryable: false })
  })
  const { operation, build } = (await save(id, { template_slug: 'failed' })).body
  assert.equal((await w.ended(operation.id)).error.code, 'checkpoint_failed')
  assert.equal((await finished(build.id)).error.code, 'checkpoint_failed')
})

test("the log has the build's output from any offset on, until it expires", async () => {
  const id = await running()
  const { id: build_id } = await finished((await save(id, { template_slug: 'logged' })).body.build.id)
  const log = async (offset: number) => (await w.get(`/v1/template-builds/${build_id}/log?offset=${offset}`)).body
  await until('all of it is there', 60_000, async () => (await log(0)).text.includes('Version 1'))
  const all = await log(0)
  assert.deepEqual([all.offset, all.complete, all.next_offset], [0, true, Buffer.byteLength(all.text)])
  assert.match(all.text, /^The files are captured\.\nA layer of \d+ entries/)
  const rest = await log(4)
  assert.deepEqual([rest.offset, rest.text, rest.next_offset], [4, all.text.slice(4), all.next_offset])
  assert.deepEqual(await log(all.next_offset), { offset: all.next_offset, next_offset: all.next_offset, text: '', complete: true })
  assert.deepEqual(said(await w.get(`/v1/template-builds/${build_id}/log?offset=${Number(all.next_offset) + 1}`)), [
    422,
    'validation_failed',
    undefined,
  ])
  w.advance(LIMITS.template_build.log_seconds + 60)
  assert.deepEqual(said(await w.get(`/v1/template-builds/${build_id}/log`)), [404, 'not_found', 'log_expired'])
})

for (const point of ['template_build.B2', 'template_build.B3'] as const) {
  test(`a build that falls over at ${point} is taken up again, and makes one version`, async () => {
    const id = await running()
    write(id, '/home/user/kept', point)
    let hits = 0
    using _ = armFailpoint(point, () => {
      hits += 1
      if (hits === 1) throw new Error('the first attempt falls over')
    })
    const template_slug = `again-${point.slice(-2).toLowerCase()}`
    const build = await finished((await save(id, { template_slug, auto_publish: true })).body.build.id)
    assert.deepEqual([build.state, build.version], ['succeeded', 1])
    assert.equal((await w.get(`/v1/templates/${template_slug}/versions`)).body.data.length, 1)
    const { attempt } = await w.database.superuser
      .selectFrom('operations')
      .select('attempt')
      .where('id', '=', build.operation_id)
      .executeTakeFirstOrThrow()
    assert.equal(attempt, 2)
  })
}

test('two concurrent builds of one template make two versions, each with its own number', async () => {
  const [one, two] = [await running(), await running()]
  const begun = await Promise.all([one, two].map((id) => save(id, { template_slug: 'both' })))
  const builds = await Promise.all(begun.map(({ body }) => finished(body.build.id)))
  assert.deepEqual(builds.map(({ version }) => version).sort(), [1, 2])
})
