import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { armFailpoint } from '../../service/lib/failpoints.ts'
import { until } from '../support/processes.ts'
import { seeder, SETTINGS, type Answer } from './support.ts'
import { worldWithCell, type CellWorld } from './with-cell.ts'

let w: CellWorld
let seeds: ReturnType<typeof seeder>
before(async () => {
  w = await worldWithCell({ capacity: { cpu_millis: 64_000, memory_mib: 1 << 17, disk_gib: 2000 } })
  seeds = seeder(w.database, w.clock, w.ids)
})
after(() => w[Symbol.asyncDispose]())

const FORMS = ['short', 'long'] as const
type Form = (typeof FORMS)[number]
const at = (form: Form, slug: string) =>
  form === 'long' ? `/v1/organizations/${w.a.organization_id}/templates/${slug}/draft` : `/v1/templates/${slug}/draft`
const said = ({ status, body }: Answer) => (status < 400 ? status : [status, body.error.code, body.error.details?.reason])
const WAIT = { headers: { prefer: 'wait=20' } }
const write = (id: string, path: string, text: string) => void w.host.guest(id).files.set(path, text)
const read = (id: string, path: string) => w.host.guest(id).files.get(path)
async function finished(build_id: string): Promise<Answer['body']> {
  let { body } = await w.get(`/v1/template-builds/${build_id}`)
  await until('the build is over', 60_000, async () => {
    body = (await w.get(`/v1/template-builds/${build_id}`, WAIT)).body
    return body.completed_at !== null
  })
  return body
}
const published = async (path: string, body: object = {}) => finished((await w.post(`${path}/publish`, body)).body.build.id)
async function drafted(form: Form, slug: string, body: object = { base: 'base@1' }): Promise<{ id: string; path: string }> {
  const path = at(form, slug)
  const opened = await w.post(path, body, WAIT)
  assert.deepEqual(
    [opened.status, opened.body.operation?.state, typeof opened.body.tool_token?.token],
    [200, 'succeeded', 'string'],
    JSON.stringify(opened.body),
  )
  return { id: opened.body.draft.workspace_id, path }
}
async function captured(path: string): Promise<Answer['body']> {
  const { body } = await w.post(`${path}/states`)
  const { state, result } = await w.ended(body.id)
  assert.equal(state, 'succeeded')
  return { state_id: body.input.state_id, ...result }
}

for (const form of FORMS) {
  test(`${form}: a draft is changed, captured, tried, published and opened; the instance writes to itself alone`, async () => {
    const { id, path } = await drafted(form, `whole-${form}`)
    write(id, '/home/user/kept', 'captured')
    const { state_id, checkpoint_id } = await captured(path)
    write(id, '/home/user/kept', 'later')
    const tried = await w.post(`${path}/test-instances`, {}, WAIT)
    assert.deepEqual([tried.status, tried.body.workspace.origin.checkpoint_id], [200, checkpoint_id])
    const instance = tried.body.workspace.id
    assert.equal(read(instance, '/home/user/kept'), 'captured')
    write(instance, '/home/user/kept', 'of the instance')
    write(instance, '/home/user/more', 'of the instance')
    assert.deepEqual([read(id, '/home/user/kept'), read(id, '/home/user/more')], ['later', undefined])
    await w.ended((await w.post(`/v1/workspaces/${instance}/reset`, { confirm_destructive: true })).body.id)
    assert.deepEqual([read(instance, '/home/user/kept'), read(instance, '/home/user/more')], ['captured', undefined])

    const { status, body } = await w.post(`${path}/publish`, { state_id, auto_publish: true, description: 'What it is' })
    assert.deepEqual([status, body.operation, body.build.kind, body.build.template_slug], [202, null, 'draft', `whole-${form}`])
    const build = await finished(body.build.id)
    assert.deepEqual([build.state, build.version, build.published], ['succeeded', 1, true])
    const opened = await w.ready(`opened-${form}`, { template: `whole-${form}` })
    assert.equal(read(opened, '/home/user/kept'), 'captured')
    const [base, made] = [(await w.get('/v1/templates/base/versions/1')).body, (await w.get(`/v1/templates/whole-${form}/versions/1`)).body]
    assert.deepEqual([made.layers.slice(0, -1), made.description, made.settings], [base.layers, 'What it is', base.settings])
    const draft = (await w.get(path)).body
    assert.deepEqual([draft.stale, draft.draft_base_version, draft.latest_version], [false, 1, 1])
    const next = await w.post(`${path}/publish`, { auto_publish: true })
    assert.deepEqual([next.body.operation.kind, next.body.operation.workspace_id], ['layer_snapshot', id])
    assert.deepEqual((await finished(next.body.build.id)).version, 2)
    assert.equal(read(await w.ready(`reopened-${form}`, { template: `whole-${form}` }), '/home/user/kept'), 'later')
    assert.deepEqual(
      (await w.get(`${path}/states`)).body.data.map((state: { id: string }) => state.id),
      [state_id],
    )
  })

  test(`${form}: a draft that somebody has overtaken with a published version is stale; an unpublished one does not count`, async () => {
    const slug = `stale-${form}`
    await seeds.template(w.a.organization_id, slug, SETTINGS)
    const { id, path } = await drafted(form, slug, {})
    const other = await w.ready(`overtakes-${form}`)
    const admin = { as: (await seeds.person(w.a.organization_id, 'admin')).token }
    const save = async (auto_publish: boolean) =>
      finished((await w.post(`/v1/workspaces/${other}/save-as-template`, { template_slug: slug, auto_publish }, admin)).body.build.id)
    await save(false)
    assert.equal((await published(path)).version, 3)
    assert.equal((await save(true)).version, 4)
    assert.equal((await w.get(path)).body.stale, true)
    const refused = await w.post(`${path}/publish`)
    assert.deepEqual(
      [said(refused), refused.body.error.retryable, refused.body.error.details],
      [[409, 'conflict', 'draft_stale'], false, { reason: 'draft_stale', latest_version: 4, draft_base_version: 3 }],
    )
    assert.equal((await w.get(`/v1/workspaces/${id}`)).body.active_operation, null)
  })

  test(`${form}: of two publishes at once one wins, and the other is told which build it waits for; so is a discard`, async () => {
    const { id, path } = await drafted(form, `two-${form}`)
    const { state_id } = await captured(path)
    const holds = Promise.withResolvers<void>()
    using _ = armFailpoint('template_build.B2', () => holds.promise)
    const answers = await Promise.all([w.post(`${path}/publish`, { state_id }), w.post(`${path}/publish`, { state_id })])
    const [won, lost] = answers.sort((a, b) => a.status - b.status)
    const build_id = won.body.build.id
    const told = [409, true, { reason: 'build_in_progress', build_id }]
    const seen = ({ status, body }: Answer) => [status, body.error.retryable, body.error.details]
    assert.deepEqual(seen(lost), told)
    assert.deepEqual(seen(await w.call('DELETE', path)), told)
    assert.equal((await w.call('DELETE', `/v1/workspaces/${id}`)).status, 202)
    const build = await finished(build_id)
    assert.deepEqual([build.state, build.error.code, build.version], ['canceled', 'canceled', null])
    holds.resolve()
    assert.deepEqual((await w.get(`/v1/templates/two-${form}/versions`)).body.data, [])
  })

  test(`${form}: settings replace those of the base field by field, and nothing else of them`, async () => {
    const slug = `settings-${form}`
    await seeds.template(w.a.organization_id, slug, { ...SETTINGS, env: { A: '1', B: '2' } })
    const { path } = await drafted(form, slug, {})
    const settings = async (version: number) => (await w.get(`/v1/templates/${slug}/versions/${version}`)).body.settings
    const base = await settings(1)
    const { state_id } = await captured(path)
    await published(path, { state_id, settings: { env: { C: '3' } } })
    assert.deepEqual(await settings(2), { ...base, env: { C: '3' } })
    const { cpu_millis, disk_gib } = base.defaults
    for (const [version, said_of] of [
      [3, { defaults: { memory_mib: 256 } }],
      [4, { settings: { defaults: { memory_mib: 256 } } }],
    ] as const) {
      await published(path, { state_id, ...said_of })
      assert.deepEqual(await settings(version), { ...base, defaults: { cpu_millis, disk_gib, memory_mib: 256 } })
    }
    const refusal = async (body: object) => said(await w.post(`${path}/publish`, { state_id, ...body }))
    const invalid = [422, 'validation_failed', 'invalid_settings']
    assert.deepEqual(await refusal({ defaults: { memory_mib: 256 }, settings: { defaults: { memory_mib: 256 } } }), invalid)
    assert.deepEqual(await refusal({ defaults: { memory_mib: 1_000_000 } }), invalid)
    assert.deepEqual(await refusal({ settings: { update_policy: 'automatic' } }), [422, 'validation_failed', 'update_policy_not_available'])
    const many = Array.from({ length: 201 }, (_, index) => `/a/${index}`)
    assert.deepEqual(await refusal({ acknowledged_scan_findings: many }), [422, 'validation_failed', 'too_many_acknowledged_findings'])
    assert.deepEqual(await refusal({ acknowledged_scan_findings: ['relative'] }), [422, 'validation_failed', 'invalid_path'])
    assert.deepEqual(await refusal({ state_id: w.ids.next() }), [404, 'not_found', 'draft_state_not_found'])
    const limit = (concurrent_template_builds: number | null) =>
      w.database.superuser.updateTable('plans').set({ concurrent_template_builds }).execute()
    await limit(0)
    assert.deepEqual(await refusal({}), [403, 'quota_exceeded', undefined])
    await limit(null)
  })

  test(`${form}: what looks like a secret keeps the version from being published until it is acknowledged`, async () => {
    const { id, path } = await drafted(form, `leaky-${form}`)
    write(id, '/home/user/.env', 'KEY=FAKE-SECRET')
    const { state_id } = await captured(path)
    const first = await published(path, { state_id, auto_publish: true })
    assert.deepEqual([first.published, first.scan_findings], [false, [{ path: '/home/user/.env', rule: 'fake_secret', line: 1 }]])
    const second = await published(path, { state_id, auto_publish: true, acknowledged_scan_findings: ['/home/user/.env'] })
    assert.deepEqual([second.published, second.scan_findings], [true, []])
  })
}

test('a fork of a test instance also begins with the state, and outlives the draft', async () => {
  const { id, path } = await drafted('short', 'forked')
  write(id, '/home/user/kept', 'captured')
  await captured(path)
  const instance = (await w.post(`${path}/test-instances`, {}, WAIT)).body.workspace.id
  const forked = await w.post(`/v1/workspaces/${instance}/fork`, { key: 'of-instance' })
  assert.equal((await w.ended(forked.body.operation.id)).state, 'succeeded')
  await w.ended((await w.call('DELETE', path)).body.id)
  const fork = forked.body.workspace.id
  await w.ended((await w.post(`/v1/workspaces/${fork}/reset`, { confirm_destructive: true })).body.id)
  assert.equal(read(fork, '/home/user/kept'), 'captured')
  const build = await finished((await w.post(`/v1/workspaces/${fork}/save-as-template`, { template_slug: 'of-fork' })).body.build.id)
  const [base, made] = [(await w.get('/v1/templates/base/versions/1')).body, (await w.get('/v1/templates/of-fork/versions/1')).body]
  assert.deepEqual([build.state, made.layers.length], ['succeeded', Number(base.layers.length) + 2])
})

test('a test instance of a state that was deleted meanwhile is refused with the reason, and the draft goes on', async () => {
  const { id, path } = await drafted('short', 'given-up')
  const { checkpoint_id } = await captured(path)
  const holds = Promise.withResolvers<void>()
  using _ = armFailpoint('open.O4', () => holds.promise)
  const { body } = await w.post(`${path}/test-instances`)
  assert.equal((await w.call('DELETE', `/v1/workspaces/${id}/checkpoints/${checkpoint_id}`)).status, 204)
  holds.resolve()
  const { state, error } = await w.ended(body.operation.id)
  assert.deepEqual([state, error.code, error.details.reason], ['failed', 'checkpoint_corrupt', 'not_found'])
  assert.equal((await w.get(`/v1/workspaces/${id}`)).body.observed_state, 'running')
})
