import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { allDraftStates, draftState } from '../support/drafts.ts'
import { unpublishedVersion } from '../support/template-versions.ts'
import { seeder, SETTINGS, world, type Answer, type World } from './support.ts'

let w: World
let seeds: ReturnType<typeof seeder>
before(async () => {
  w = await world()
  seeds = seeder(w.database, w.clock, w.ids)
})
after(() => w[Symbol.asyncDispose]())

const FORMS = ['short', 'long'] as const
type Form = (typeof FORMS)[number]
const at = (form: Form, slug: string) =>
  form === 'long' ? `/v1/organizations/${w.a.organization_id}/templates/${slug}/draft` : `/v1/templates/${slug}/draft`
const said = ({ status, body }: Answer) => (status < 400 ? status : [status, body.error.code, body.error.details?.reason])
const template = (slug: string, settings = SETTINGS, layered = true) => seeds.template(w.a.organization_id, slug, settings, layered)
const archive = (slug: string) =>
  w.database.superuser.updateTable('templates').set({ archived_at: w.clock.now() }).where('slug', '=', slug).execute()
async function drafted(form: Form, slug: string, body: object = {}): Promise<{ draft: Answer['body']; path: string }> {
  await template(slug)
  const path = at(form, slug)
  const opened = await w.post(path, body)
  assert.equal(opened.status, 202)
  await w.cell.succeed(opened.body.operation.id)
  return { draft: opened.body.draft, path }
}

for (const form of FORMS) {
  test(`${form}: a draft is a layered workspace of the latest published version, under a key of the service's own`, async () => {
    const slug = `first-${form}`
    await template(slug)
    await unpublishedVersion(w, w.a.organization_id, slug, SETTINGS)
    const path = at(form, slug)
    assert.deepEqual(said(await w.get(path)), [404, 'not_found', 'draft_not_found'])
    const opened = await w.post(path, { inputs: { CITY: 'Rome' }, caps: { memory_mib: 256 } })
    const { draft, operation, workspace, tool_token } = opened.body
    assert.deepEqual([opened.status, operation.kind, tool_token], [202, 'open', null])
    assert.match(workspace.key, new RegExp(`^sf:draft:${slug}:[0-9a-f]{8}$`))
    assert.deepEqual(
      [workspace.purpose, workspace.lifetime, workspace.disk_layout, workspace.template, workspace.ceilings.memory_mib],
      ['template_draft', 'persistent', 'layered', { slug, version: 1 }, 256],
    )
    assert.deepEqual((await w.get(`/v1/workspaces/${workspace.id}/inputs`)).body, { CITY: 'Rome', COLOUR: 'blue' })
    const { id: template_id } = (await w.get(`/v1/templates/${slug}`)).body
    assert.deepEqual(draft, {
      id: draft.id,
      template_id,
      template_slug: slug,
      organization_id: w.a.organization_id,
      project_id: w.a.project_id,
      workspace_id: workspace.id,
      base: { slug, version: 1 },
      draft_base_version: 1,
      latest_version: 1,
      stale: false,
      created_at: draft.created_at,
      discarded_at: null,
    })
    assert.deepEqual((await w.get(path)).body, draft)
    const listed = async (query: string) => (await w.get(`/v1/workspaces?${query}`)).body.data.map(({ id }: { id: string }) => id)
    assert.ok(!(await listed('')).includes(workspace.id))
    assert.ok((await listed('purpose=template_draft')).includes(workspace.id))
  })

  test(`${form}: a template has one draft; several at once make one`, async () => {
    const slug = `one-${form}`
    await template(slug)
    const answers = await Promise.all([1, 2, 3].map(() => w.post(at(form, slug), {})))
    const [made, ...others] = answers.sort((a, b) => a.status - b.status)
    assert.deepEqual([made?.status, ...others.map(said)], [202, ...[1, 2].map(() => [409, 'conflict', 'draft_exists'])])
    assert.deepEqual(
      others.map(({ body }) => body.error.details.workspace_id),
      [1, 2].map(() => made?.body.workspace.id),
    )
  })

  test(`${form}: a template that is not there is made with its draft, of a base that is said`, async () => {
    const slug = `made-${form}`
    assert.deepEqual(said(await w.post(at(form, slug), {})), [422, 'validation_failed', 'base_required'])
    assert.deepEqual(said(await w.get(`/v1/templates/${slug}`)), [404, 'not_found', undefined])
    const { status, body } = await w.post(at(form, slug), { base: 'base@1', display_name: 'Made' })
    assert.deepEqual([status, body.draft.base, body.draft.draft_base_version], [202, { slug: 'base', version: 1 }, null])
    const made = (await w.get(`/v1/templates/${slug}`)).body
    assert.deepEqual([made.display_name, made.latest_version], ['Made', null])
  })

  test(`${form}: what the open of a draft is refused for`, async () => {
    const refusal = async (slug: string, body: object = {}) => said(await w.post(at(form, slug), body))
    const own = `refusing-${form}`
    await template(own)
    assert.deepEqual(await refusal('base'), [422, 'validation_failed', 'platform_template_slug'])
    assert.deepEqual(await refusal('python', { base: 'base@1' }), [422, 'validation_failed', 'reserved_template_slug'])
    assert.deepEqual(await refusal(own, { base: `${own}@99` }), [404, 'not_found', 'version_not_found'])
    assert.deepEqual(await refusal(own, { base: 'nowhere@1' }), [404, 'not_found', 'version_not_found'])
    assert.deepEqual(await refusal(own, { base: 'base' }), [422, 'validation_failed', undefined])
    assert.deepEqual(await refusal(own, { tools: ['git'] }), [403, 'forbidden', undefined])
    assert.deepEqual(await refusal(own, { inputs: { TOWN: 'Rome' } }), [422, 'validation_failed', 'input_unknown'])
    assert.deepEqual(await refusal(own, { inputs: { CITY: 1 } }), [422, 'validation_failed', 'input_invalid'])
    await template(`copies-${form}`, SETTINGS, false)
    assert.deepEqual(await refusal(`copies-${form}`), [409, 'conflict', 'template_not_layered'])
    await template(`needy-${form}`, { ...SETTINGS, inputs: { NEED: { required: true } } })
    assert.deepEqual(await refusal(`needy-${form}`), [422, 'validation_failed', 'input_required'])
    await w.post(`/v1/projects/${w.a.project_id}/secrets`, { name: 'HOME', value: 'v' })
    await template(`hidden-${form}`, { ...SETTINGS, inputs: { HOME: { kind: 'secret' } } })
    assert.deepEqual(await refusal(`hidden-${form}`), [422, 'validation_failed', 'env_collision'])
    await template(`old-${form}`)
    await archive(`old-${form}`)
    assert.deepEqual(await refusal(`old-${form}`), [409, 'conflict', 'template_archived'])
    assert.deepEqual(await refusal(own, { base: `old-${form}@1` }), [409, 'conflict', 'template_archived'])
    const version = await unpublishedVersion(w, w.a.organization_id, own, SETTINGS)
    const of = w.database.superuser.updateTable('template_versions').where('version', '=', version)
    await of.set({ archived_at: w.clock.now() }).execute()
    assert.deepEqual(await refusal(own, { base: `${own}@${version}` }), [409, 'conflict', 'version_archived'])
    await of.set({ archived_at: null }).execute()
    assert.equal(await refusal(own, { base: `${own}@${version}` }), 202)
  })

  test(`${form}: members and keys without tools are told that they work on no templates; a key of another project finds no draft`, async () => {
    const { path } = await drafted(form, `roles-${form}`)
    const role = [403, 'forbidden', 'template_dev_mode_role']
    const { organization_id, project_id } = w.a
    const member = (await seeds.person(organization_id, 'member')).token
    const key = (await seeds.key(organization_id, project_id, [])).key
    const calls = [
      ['GET', ''],
      ['POST', ''],
      ['DELETE', ''],
      ['GET', '/states'],
      ['POST', '/states'],
      ['GET', '/test-instances'],
      ['POST', '/test-instances'],
      ['POST', '/publish'],
    ] as const
    const told = async (as: string, body?: object) =>
      Promise.all(
        calls.map(async ([method, suffix]) =>
          said(await w.call(method, path + suffix, { as, ...(method === 'POST' ? { body: body ?? {} } : {}) })),
        ),
      )
    for (const as of [member, key])
      assert.deepEqual(
        (await told(as)).filter((answer, call) => call !== 1 && JSON.stringify(answer) !== JSON.stringify(role)),
        [],
      )
    for (const as of [member, key]) assert.deepEqual(said(await w.post(path, { project_id }, { as })), role)
    const none = [404, 'not_found', 'draft_not_found']
    assert.deepEqual(await told(w.a2.key), [none, [409, 'conflict', 'draft_exists'], none, none, none, none, none, none])
    const owner = (await seeds.person(organization_id, 'owner')).token
    assert.equal(said(await w.get(path, { as: owner })), 200)
    assert.deepEqual(said(await w.post(at(form, `of-owner-${form}`), { base: 'base@1' }, { as: owner })), [
      422,
      'validation_failed',
      undefined,
    ])
    assert.deepEqual(said(await w.post(at(form, `of-owner-${form}`), { base: 'base@1', project_id: w.b.project_id }, { as: owner })), [
      404,
      'not_found',
      undefined,
    ])
    assert.equal(said(await w.post(at(form, `of-owner-${form}`), { base: 'base@1', project_id }, { as: owner })), 202)
  })

  test(`${form}: states are captured of a draft that runs and that nothing holds, as many as it may have`, async () => {
    const { draft, path } = await drafted(form, `states-${form}`)
    const { workspace_id } = draft
    const first = await w.post(`${path}/states`, { label: 'first' })
    assert.deepEqual([first.status, first.body.kind, first.body.workspace_id], [202, 'layer_snapshot', workspace_id])
    assert.deepEqual([first.body.input.reason, first.body.input.label], ['draft_state', 'first'])
    assert.deepEqual((await w.get(`${path}/states`)).body.data, [])
    assert.deepEqual(said(await w.post(`${path}/states`)), [409, 'conflict', 'operation_in_progress'])
    assert.deepEqual(said(await w.post(`${path}/publish`)), [409, 'conflict', 'operation_in_progress'])
    await release(first.body.id)
    await w.cell.succeed((await w.post(`/v1/workspaces/${workspace_id}/suspend`)).body.id)
    assert.deepEqual(said(await w.post(`${path}/states`)), [409, 'conflict', 'workspace_not_running'])
    assert.deepEqual(said(await w.post(`${path}/publish`)), [409, 'conflict', 'workspace_not_running'])
    await w.cell.succeed((await w.post(`/v1/workspaces/${workspace_id}/resume`)).body.operation.id)
    await allDraftStates(w, workspace_id)
    const full = await w.post(`${path}/states`)
    const limit_value = LIMITS.template_build.draft_states_max
    assert.deepEqual(
      [said(full), full.body.error.details],
      [[403, 'quota_exceeded', undefined], { limit: 'states_per_draft', limit_value, current: limit_value }],
    )
    const listed = (await w.get(`${path}/states?limit=2`)).body
    const more = (await w.get(`${path}/states?limit=200&cursor=${listed.next_cursor}`)).body
    const all = [...listed.data, ...more.data].map(({ id }: { id: string }) => id)
    assert.deepEqual([all, new Set(all).size], [[...all].sort().reverse(), limit_value])
    const { id, checkpoint_id } = listed.data[0]
    assert.equal((await w.call('DELETE', `/v1/workspaces/${workspace_id}/checkpoints/${checkpoint_id}`)).status, 204)
    assert.deepEqual(said(await w.post(`${path}/test-instances`, { state_id: id })), [404, 'not_found', 'draft_state_not_found'])
    assert.equal((await w.post(`${path}/states`)).status, 202)
  })

  test(`${form}: a test instance is a session of a state, the newest where none is said`, async () => {
    const { draft, path } = await drafted(form, `tried-${form}`)
    assert.deepEqual(said(await w.post(`${path}/test-instances`)), [404, 'not_found', 'draft_state_not_found'])
    const [older, newer] = [await draftState(w, draft.workspace_id, 'older'), await draftState(w, draft.workspace_id)]
    const states = (await w.get(`${path}/states`)).body.data
    assert.deepEqual(
      states.map(({ id, label }: { id: string; label: string }) => [id, label]),
      [
        [newer, null],
        [older, 'older'],
      ],
    )
    const { status, body } = await w.post(`${path}/test-instances`)
    const { workspace, operation } = body
    assert.deepEqual([status, operation.kind, workspace.purpose, workspace.lifetime], [202, 'open', 'template_test', 'session'])
    assert.match(workspace.key, new RegExp(`^sf:test:tried-${form}:[0-9a-f]{8}$`))
    const origin = { kind: 'draft_state', state_id: newer, checkpoint_id: states[0].checkpoint_id, template_id: draft.template_id }
    assert.deepEqual([workspace.origin, workspace.disk_layout, workspace.project_id], [origin, 'layered', w.a.project_id])
    const key = `trial-${form}`
    const of_older = await w.post(`${path}/test-instances`, { state_id: older, key })
    assert.deepEqual([of_older.status, of_older.body.workspace.origin.state_id], [202, older])
    assert.equal((await w.post(`${path}/test-instances`, { state_id: older, key })).body.operation.id, of_older.body.operation.id)
    await w.cell.succeed(of_older.body.operation.id)
    const ready = await w.post(`${path}/test-instances`, { state_id: older, key })
    assert.deepEqual([ready.status, typeof ready.body.tool_token.token], [200, 'string'])
    await w.post(`/v1/workspaces/${ready.body.workspace.id}/reset`, { confirm_destructive: true })
    const refusal = async (given: object) => said(await w.post(`${path}/test-instances`, given))
    assert.deepEqual(await refusal({ state_id: older, key }), [409, 'conflict', 'operation_in_progress'])
    assert.deepEqual(await refusal({ state_id: newer, key }), [409, 'conflict', 'key_in_use'])
    assert.deepEqual(await refusal({ key: 'sf:mine' }), [422, 'validation_failed', 'reserved_key_prefix'])
    assert.deepEqual(await refusal({ state_id: w.ids.next() }), [404, 'not_found', 'draft_state_not_found'])
    assert.deepEqual(await refusal({ tools: ['git'] }), [403, 'forbidden', undefined])
    assert.deepEqual(await refusal({ inputs: { TOWN: 'Rome' } }), [422, 'validation_failed', 'input_unknown'])
    assert.deepEqual(await refusal({ inputs: { CITY: 1 } }), [422, 'validation_failed', 'input_invalid'])
    const listed = async (query = '') =>
      (await w.get(`${path}/test-instances${query}`)).body.data.map(({ id }: { id: string }) => id) as string[]
    assert.deepEqual(await listed(), [of_older.body.workspace.id, workspace.id])
    await w.post(`/v1/workspaces/${workspace.id}/close`)
    assert.deepEqual([await listed(), (await listed('?include_ended=true')).length], [[of_older.body.workspace.id], 2])
    await archive(`tried-${form}`)
    assert.deepEqual(await refusal({}), [409, 'conflict', 'template_archived'])
    assert.deepEqual(said(await w.post(`${path}/publish`)), [409, 'conflict', 'template_archived'])
  })

  test(`${form}: inputs that a base demands are demanded of its drafts' test instances; its secrets collide there as anywhere`, async () => {
    const { draft, path } = await drafted(form, `demands-${form}`)
    await draftState(w, draft.workspace_id)
    const settings = (inputs: object) =>
      w.database.superuser
        .updateTable('template_versions')
        .set({ settings: JSON.stringify({ ...SETTINGS, inputs }) })
        .where('template_id', '=', draft.template_id)
        .execute()
    await settings({ NEED: { required: true } })
    assert.deepEqual(said(await w.post(`${path}/test-instances`)), [422, 'validation_failed', 'input_required'])
    await w.post(`/v1/projects/${w.a.project_id}/secrets`, { name: 'HOME', value: 'v' })
    await settings({ HOME: { kind: 'secret' } })
    assert.deepEqual(said(await w.post(`${path}/test-instances`)), [422, 'validation_failed', 'env_collision'])
  })

  test(`${form}: a discard deletes the draft, and ends its test instances for that reason`, async () => {
    const { draft, path } = await drafted(form, `gone-${form}`)
    await draftState(w, draft.workspace_id)
    const [live, closed] = [await w.post(`${path}/test-instances`), await w.post(`${path}/test-instances`)]
    await w.post(`/v1/workspaces/${closed.body.workspace.id}/close`)
    const { status, body } = await w.call('DELETE', path, { headers: { 'idempotency-key': `discard-${form}` } })
    assert.deepEqual([status, body.kind, body.workspace_id, body.input], [202, 'delete', draft.workspace_id, { reason: 'draft_discarded' }])
    const workspace = async (id: string) => (await w.get(`/v1/workspaces/${id}`)).body
    const ended = await workspace(live.body.workspace.id)
    assert.deepEqual(
      [ended.ended_reason, ended.desired_state, ended.active_operation.kind, ended.active_operation.input],
      ['draft_discarded', 'deleted', 'delete', { reason: 'draft_discarded' }],
    )
    assert.equal((await w.get(`/v1/operations/${live.body.operation.id}`)).body.state, 'canceled')
    assert.deepEqual((await workspace(closed.body.workspace.id)).ended_reason, 'closed')
    assert.deepEqual((await workspace(draft.workspace_id)).ended_reason, 'draft_discarded')
    const gone = [404, 'not_found', 'draft_not_found']
    for (const suffix of ['', '/states', '/test-instances']) assert.deepEqual(said(await w.get(path + suffix)), gone)
    for (const suffix of ['/states', '/test-instances', '/publish']) assert.deepEqual(said(await w.post(path + suffix)), gone)
    assert.deepEqual(said(await w.call('DELETE', path)), gone)
    const again = await w.call('DELETE', path, { headers: { 'idempotency-key': `discard-${form}` } })
    assert.deepEqual([again.status, again.body.id], [202, body.id])
    assert.equal((await w.post(path)).status, 202)
  })
}

async function release(id: string): Promise<void> {
  const { superuser: db } = w.database
  await db.updateTable('operations').set({ state: 'failed', completed_at: w.clock.now() }).where('id', '=', id).execute()
  await db.deleteFrom('workspace_holds').where('operation_id', '=', id).execute()
}

test('an open of a draft restarts it when its machine did not start or died', async () => {
  await template('again')
  const path = at('short', 'again')
  const first = (await w.post(path)).body
  await w.cell.fail(first.operation.id)
  const again = await w.post(path, { base: 'base@1', caps: { cpu_millis: 1000 } })
  assert.deepEqual([again.status, again.body.draft, again.body.workspace.id], [202, first.draft, first.workspace.id])
  assert.deepEqual([first.ignored, again.body.ignored], [[], ['base', 'caps']])
  assert.deepEqual(said(await w.post(path, {}, { as: w.a2.key })), [409, 'conflict', 'draft_exists'])
  await w.cell.succeed(again.body.operation.id)
  await w.cell.succeed((await w.post(`/v1/workspaces/${first.workspace.id}/suspend`)).body.id)
  assert.deepEqual(said(await w.post(path)), [409, 'conflict', 'draft_exists'])
})

test('a draft whose workspace is deleted is discarded, with its test instances', async () => {
  const { draft, path } = await drafted('short', 'deleted')
  await draftState(w, draft.workspace_id)
  const { body } = await w.post(`${path}/test-instances`)
  assert.equal((await w.call('DELETE', `/v1/workspaces/${draft.workspace_id}`)).status, 202)
  assert.deepEqual(said(await w.get(path)), [404, 'not_found', 'draft_not_found'])
  assert.equal((await w.get(`/v1/workspaces/${body.workspace.id}`)).body.ended_reason, 'draft_discarded')
  assert.equal((await w.get(`/v1/workspaces/${draft.workspace_id}`)).body.ended_reason, null)
})
