import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { HostFailure } from '../../service/cell/host/hostd.ts'
import { seeder, type Answer, type Tenant } from './support.ts'
import { worldWithCell, type CellWorld } from './with-cell.ts'

let w: CellWorld
let seeds: ReturnType<typeof seeder>
before(async () => {
  w = await worldWithCell()
  seeds = seeder(w.database, w.clock, w.ids)
})
after(() => w[Symbol.asyncDispose]())

const reason = ({ status, body }: Answer) => [status, body.error.code, body.error.details?.reason]
const path = (id = '', of: Tenant = w.a) => `/v1/projects/${of.project_id}/volumes${id === '' ? '' : `/${id}`}`
const attached = (workspace: string, id = '') => `/v1/workspaces/${workspace}/volumes${id === '' ? '' : `/${id}`}`
const unknown = '01920000-0000-7000-8000-000000000000'
const at = (name: string) => `/home/user/${name}`

async function made(name: string, more: object = {}): Promise<string> {
  const { status, body } = await w.post(path(), { name, quota_gib: 1, ...more })
  assert.equal(status, 202, JSON.stringify(body))
  assert.equal((await w.ended(body.operation.id)).state, 'succeeded')
  return body.volume.id
}

async function attach(workspace: string, volume_id: string, more: object = {}) {
  const { status, body } = await w.post(attached(workspace), { volume_id, mount_path: at(volume_id), ...more })
  assert.equal(status, 202, JSON.stringify(body))
  return w.ended(body.operation.id)
}

test('a volume is creating until the cell has made its storage, and a repeat with the same key is the same volume', async () => {
  const headers = { 'idempotency-key': 'create-1' }
  const first = await w.post(path(), { name: 'first', quota_gib: 2 }, { headers })
  assert.deepEqual([first.status, first.body.volume.state, first.body.operation.kind], [202, 'creating', 'volume_create'])
  const { id, created_at, updated_at, ...fields } = first.body.volume
  assert.deepEqual(fields, {
    organization_id: w.a.organization_id,
    project_id: w.a.project_id,
    name: 'first',
    quota_gib: 2,
    org_shared: false,
    state: 'creating',
    attachments: [],
    deleted_at: null,
  })
  assert.equal(created_at, updated_at)
  assert.deepEqual(first.body.operation.workspace_id, null)
  const repeat = await w.post(path(), { name: 'first', quota_gib: 2 }, { headers })
  assert.deepEqual([repeat.status, repeat.body.volume.id], [202, id])
  const { state, result } = await w.ended(first.body.operation.id)
  assert.deepEqual([state, result], ['succeeded', { volume_id: id }])
  assert.equal((await w.get(path(id))).body.state, 'available')
})

test('only live volumes of the same project reserve a name', async () => {
  const id = await made('taken')
  const again = await w.post(path(), { name: 'taken', quota_gib: 1 })
  assert.deepEqual([...reason(again), again.body.error.details.name], [409, 'conflict', 'name_in_use', 'taken'])
  assert.equal((await w.post(path('', w.a2), { name: 'taken', quota_gib: 1 }, { as: w.a2.key })).status, 202)
  await w.ended((await w.call('DELETE', path(id))).body.operation.id)
  assert.notEqual(await made('taken'), id)
})

test('name and quota are bounded, and unknown fields are refused', async () => {
  for (const body of [
    {},
    { name: 'x' },
    { quota_gib: 1 },
    { name: '', quota_gib: 1 },
    { name: 'a\nb', quota_gib: 1 },
    { name: 'x'.repeat(101), quota_gib: 1 },
    { name: 'x', quota_gib: 0 },
    { name: 'x', quota_gib: 16_385 },
    { name: 'x', quota_gib: 1.5 },
    { name: 'x', quota_gib: 1, other: 1 },
  ])
    assert.equal((await w.post(path(), body)).status, 422, JSON.stringify(body))
})

test('a host that cannot make the storage leaves a failed volume, which cannot be attached and can be deleted', async () => {
  using _full = w.host.intercept('createVolume', 'before', () => {
    throw new HostFailure('no_space', 'The pool is full', { retryable: true })
  })
  const { body } = await w.post(path(), { name: 'failed', quota_gib: 1 })
  const { state, error } = await w.ended(body.operation.id)
  assert.deepEqual([state, error.code, error.details], ['failed', 'dependency_failed', { reason: 'no_space' }])
  const { id } = body.volume
  assert.equal((await w.get(path(id))).body.state, 'failed')
  const workspace = await w.ready('failed-volume')
  assert.deepEqual(reason(await w.post(attached(workspace), { volume_id: id, mount_path: at('x') })), [
    409,
    'conflict',
    'volume_not_available',
  ])
  assert.equal((await w.ended((await w.call('DELETE', path(id))).body.operation.id)).state, 'succeeded')
})

test('a shared volume is visible to every project of its organization, and only its own project deletes it', async () => {
  const owner = (await seeds.person(w.a.organization_id, 'owner')).token
  const member = (await seeds.person(w.a.organization_id, 'member')).token
  for (const as of [member, w.a.key]) {
    assert.deepEqual(reason(await w.post(path(), { name: 'all', quota_gib: 1, org_shared: true }, { as })), [403, 'forbidden', undefined])
  }
  const created = await w.post(path(), { name: 'all', quota_gib: 1, org_shared: true }, { as: owner })
  assert.equal(created.status, 202)
  await w.ended(created.body.operation.id)
  const { id } = created.body.volume
  const own = await made('own')
  const other = { as: w.a2.key }
  assert.equal((await w.get(path(id, w.a2), other)).body.name, 'all')
  assert.equal((await w.get(path(own, w.a2), other)).status, 404)
  const listed = async (query: string, given: object) =>
    (await w.get(`${path('', w.a2)}${query}`, given)).body.data.map((one: { id: string }) => one.id)
  assert.ok(!(await listed('', other)).includes(id))
  assert.ok((await listed('?include_org_shared=true', other)).includes(id))
  assert.ok(!(await listed('?include_org_shared=true', other)).includes(own))
  assert.equal((await w.call('DELETE', path(id, w.a2), other)).status, 404)
  for (const as of [w.b.key]) for (const where of [path(id), path(id, w.b)]) assert.equal((await w.get(where, { as })).status, 404)
  // An API key sees only attachments to workspaces of its own project.
  const mine = await w.ready('shares-a')
  const theirs = await w.ready('shares-a2', {}, other)
  await attach(mine, id)
  assert.equal(
    (await w.ended((await w.post(attached(theirs), { volume_id: id, mount_path: at('all') }, other)).body.operation.id, other)).state,
    'succeeded',
  )
  const seen = async (given: object, of: Tenant) =>
    (await w.get(path(id, of), given)).body.attachments.map((one: { workspace_id: string }) => one.workspace_id)
  assert.deepEqual(await seen({}, w.a), [mine])
  assert.deepEqual(await seen(other, w.a2), [theirs])
  assert.deepEqual(await seen({ as: owner }, w.a), [mine, theirs])
  const refused = await w.call('DELETE', path(id), {})
  assert.deepEqual(
    [...reason(refused), refused.body.error.details.attachments],
    [409, 'conflict', 'volume_attached', [{ workspace_id: mine, mount_path: at(id), mode: 'read_write', state: 'attached' }]],
  )
})

test('lists have pages, newest first, and show deleted volumes on request', async () => {
  const ids = [await made('page-1'), await made('page-2'), await made('page-3')]
  await w.ended((await w.call('DELETE', path(ids[2]))).body.operation.id)
  const first = await w.get(`${path()}?limit=1`)
  assert.equal(first.body.data[0].id, ids[1])
  const second = await w.get(`${path()}?limit=1&cursor=${first.body.next_cursor}`)
  assert.equal(second.body.data[0].id, ids[0])
  const all = await w.get(`${path()}?limit=1&include_deleted=true`)
  assert.deepEqual([all.body.data[0].id, all.body.data[0].state], [ids[2], 'deleted'])
  assert.equal((await w.get(`${path()}?include_deleted=maybe`)).status, 422)
})

test('the plan limits number, size and use of volumes; without its limits no volume is made, and starts go on', async () => {
  const plans = async (columns: object) => {
    await w.database.superuser.updateTable('plans').set(columns).execute()
  }
  const post = () => w.post(path(), { name: `plan-${w.ids.next()}`, quota_gib: 5 })
  const none = { shared_volumes_max: null, shared_volume_gib_max: null, missing_volume_limits: [], refuses_starts: null }
  const live = Number((await w.get(`${path()}?limit=200`)).body.data.length) + 1 // plus the volume of a2
  for (const [columns, code, details] of [
    [
      { missing_volume_limits: ['shared_volumes_max', 'shared_volume_gib_max'] },
      'entitlement_required',
      { reason: 'limits_missing', plan: 'unlimited', missing: ['shared_volumes_max', 'shared_volume_gib_max'] },
    ],
    [{ shared_volumes_max: 0 }, 'entitlement_required', { reason: 'not_included', plan: 'unlimited' }],
    [{ refuses_starts: 'unpaid' }, 'entitlement_required', { reason: 'unpaid', plan: 'unlimited' }],
    [{ refuses_starts: 'no_plan' }, 'entitlement_required', { reason: 'no_plan', plan: 'unlimited' }],
    [{ refuses_starts: 'operator_hold' }, 'entitlement_required', { reason: 'operator_hold', plan: 'unlimited' }],
    [{ refuses_starts: 'payment_past_due' }, 'entitlement_required', { reason: 'payment_past_due', plan: 'unlimited', grace_until: null }],
    [{ shared_volume_gib_max: 4 }, 'quota_exceeded', { limit: 'shared_volume_gib_max', limit_value: 4, current: 5 }],
    [{ shared_volumes_max: live }, 'quota_exceeded', { limit: 'shared_volumes_max', limit_value: live, current: live }],
  ] as const) {
    await plans({ ...none, ...columns })
    const { status, body } = await post()
    assert.deepEqual([status, body.error.code, body.error.details], [code === 'quota_exceeded' ? 403 : 402, code, details])
  }
  await plans({ ...none, missing_volume_limits: ['shared_volumes_max'] })
  await w.ready('starts-without-volume-limits')
  await plans({ ...none, shared_volumes_max: live + 1, shared_volume_gib_max: 5 })
  assert.equal((await post()).status, 202)
  await plans(none)
})

test('an attachment takes effect with its operation, in any state of the workspace', async () => {
  const volume_id = await made('attached')
  const workspace = await w.ready('attaches')
  const { status, body } = await w.post(attached(workspace), { volume_id, mount_path: at('data'), mode: 'read_only' })
  assert.equal(status, 202)
  const { created_at, updated_at, ...attachment } = body.attachment
  assert.deepEqual(
    [attachment, created_at],
    [{ workspace_id: workspace, volume_id, mount_path: at('data'), mode: 'read_only', state: 'attaching' }, updated_at],
  )
  assert.deepEqual([body.operation.kind, body.operation.input], ['volume_attach', { volume_id, mount_path: at('data'), mode: 'read_only' }])
  assert.deepEqual((await w.ended(body.operation.id)).result, { volume_id, mount_path: at('data') })
  const listed = await w.get(attached(workspace))
  assert.deepEqual([listed.body.data.length, listed.body.data[0].state, listed.body.next_cursor], [1, 'attached', null])
  assert.deepEqual(w.host.volumes(workspace), [{ volume_id, place: 0, mount_path: at('data'), read_only: true }])
  await w.ended((await w.post(`/v1/workspaces/${workspace}/suspend`)).body.id)
  const second = await made('attached-asleep')
  assert.equal((await attach(workspace, second)).state, 'succeeded')
  assert.equal((await w.get(`/v1/workspaces/${workspace}`)).body.observed_state, 'suspended')
  await w.ready('attaches')
  assert.deepEqual(
    w.host.volumes(workspace).map((one) => one.place),
    [0, 1],
  )
  const detached = await w.call('DELETE', attached(workspace, volume_id))
  assert.deepEqual([detached.status, detached.body.attachment.state, detached.body.operation.kind], [202, 'detaching', 'volume_detach'])
  assert.equal((await w.ended(detached.body.operation.id)).state, 'succeeded')
  assert.deepEqual(
    w.host.volumes(workspace).map((one) => one.volume_id),
    [second],
  )
  assert.equal((await w.call('DELETE', attached(workspace, volume_id))).status, 404)
  const fork = await w.post(`/v1/workspaces/${workspace}/fork`, { key: 'attaches-fork' })
  assert.equal((await w.ended(fork.body.operation.id)).state, 'succeeded')
  assert.deepEqual(w.host.volumes(fork.body.workspace.id), w.host.volumes(workspace))
  const deleted = await w.call('DELETE', `/v1/workspaces/${fork.body.workspace.id}`)
  await w.ended(deleted.body.id)
  assert.equal((await w.get(path(second))).body.attachments.length, 1)
})

test('a host that refuses an attach or detach leaves everything as it was', async () => {
  const volume_id = await made('refused')
  const workspace = await w.ready('refused')
  const refusing = (code: 'volume_busy' | 'mount_refused' | 'not_running' | 'internal', details: Record<string, unknown> = {}) =>
    w.host.intercept('setVolumes', 'before', ({ step }) => {
      if (step === 'volumes') throw new HostFailure(code, 'No', { retryable: false, details })
    })
  for (const [code, why, told] of [
    ['mount_refused', { why: 'over_a_link' }, { reason: 'mount_refused', why: 'over_a_link' }],
    ['not_running', {}, { reason: 'not_running' }],
    ['internal', {}, { reason: 'internal' }],
  ] as const) {
    using _refused = refusing(code, why)
    const { state, error } = await attach(workspace, volume_id)
    assert.deepEqual([state, error.code, error.details], ['failed', 'dependency_failed', told])
    assert.deepEqual((await w.get(attached(workspace))).body.data, [])
  }
  assert.equal((await attach(workspace, volume_id)).state, 'succeeded')
  {
    using _busy = refusing('volume_busy')
    const { body } = await w.call('DELETE', attached(workspace, volume_id))
    const { state, error } = await w.ended(body.operation.id)
    assert.deepEqual([state, error.details], ['failed', { reason: 'volume_busy' }])
    assert.equal((await w.get(attached(workspace))).body.data[0].state, 'attached')
  }
  assert.equal(w.host.volumes(workspace).length, 1)
})

test('an attach is refused for the first of its defects, in a fixed order', async () => {
  const workspace = await w.ready('refusals')
  const volume_id = await made('refusals')
  const post = (body: object, of = workspace, given: object = {}) =>
    w.post(attached(of), { volume_id, mount_path: at('x'), ...body }, given)
  for (const mount_path of [
    '',
    'data',
    '/',
    '/proc',
    '/proc/x',
    '/sys/fs',
    '/dev/shm/x',
    '/run/x',
    '/tmp/x',
    '/volumes',
    '/volumes/x',
    '/etc',
    '/usr',
    '/home',
    '/home/',
    '/a//b',
    '/a/../b',
    '/a/.',
    '/boot/x',
    `/${'x'.repeat(256)}`,
  ]) {
    const { status, body } = await post({ mount_path })
    assert.equal(status, 422, mount_path)
    if (mount_path !== '')
      assert.deepEqual([body.error.details.reason, body.error.details.field], ['invalid_path', 'mount_path'], mount_path)
  }
  assert.equal((await post({ mode: 'other' })).status, 422)
  assert.equal((await post({ mount_path: `/${'x/'.repeat(300)}x` })).status, 422)
  assert.deepEqual(reason(await post({}, unknown)), [404, 'not_found', undefined])
  assert.deepEqual(reason(await post({ volume_id: unknown })), [404, 'not_found', undefined])
  assert.deepEqual(reason(await post({ volume_id: await seeds.volume(w.b, w.cell_id) })), [404, 'not_found', undefined])
  const of_a2 = await seeds.volume(w.a2, w.cell_id)
  assert.deepEqual(reason(await post({ volume_id: of_a2 })), [404, 'not_found', undefined], 'an API key knows of its own project alone')
  const person = { as: (await seeds.person(w.a.organization_id, 'member')).token }
  assert.deepEqual(reason(await post({ volume_id: of_a2 }, workspace, person)), [409, 'conflict', 'volume_not_shared'])
  assert.deepEqual(reason(await post({ volume_id: await seeds.volume(w.a, w.cell_id, { state: 'creating' }) })), [
    409,
    'conflict',
    'volume_creating',
  ])
  for (const state of ['failed', 'deleting', 'deleted'] as const)
    assert.deepEqual(reason(await post({ volume_id: await seeds.volume(w.a, w.cell_id, { state }) })), [
      409,
      'conflict',
      'volume_not_available',
    ])
  const other_cell = await seeds.cell('other')
  await w.database.superuser.updateTable('cells').set({ seen_at: null }).where('id', '=', other_cell).execute()
  const elsewhere = await seeds.volume(w.a, other_cell)
  assert.deepEqual(reason(await post({ volume_id: elsewhere })), [409, 'conflict', 'volume_not_available'])

  const attaching = await seeds.volume(w.a, w.cell_id)
  await seeds.attachment(workspace, attaching, { state: 'attaching', mount_path: '/srv/a', place: 14 })
  const busy = await post({ volume_id: attaching })
  assert.deepEqual([...reason(busy), busy.body.error.retryable], [409, 'conflict', 'attach_in_progress', true])
  assert.deepEqual(reason(await w.call('DELETE', attached(workspace, attaching))), [409, 'conflict', 'attach_in_progress'])
  const detaching = await seeds.volume(w.a, w.cell_id)
  await seeds.attachment(workspace, detaching, { state: 'detaching', mount_path: '/srv/b', place: 15 })
  assert.deepEqual(reason(await post({ volume_id: detaching })), [409, 'conflict', 'detach_in_progress'])
  assert.deepEqual(reason(await w.call('DELETE', attached(workspace, detaching))), [409, 'conflict', 'detach_in_progress'])
  await w.database.superuser.deleteFrom('volume_attachments').where('workspace_id', '=', workspace).execute()

  assert.equal((await attach(workspace, volume_id, { mount_path: at('x') })).state, 'succeeded')
  assert.deepEqual(reason(await post({ mount_path: at('y') })), [409, 'conflict', 'already_attached'])
  const another = await made('another')
  for (const mount_path of [at('x'), at('x/below'), '/home/user']) {
    const { body } = await post({ volume_id: another, mount_path })
    assert.deepEqual(body.error.details, { reason: 'mount_path_conflict', mount_path: at('x'), volume_id })
  }
  assert.equal((await attach(workspace, another, { mount_path: at('xx') })).state, 'succeeded')
  await w.database.superuser.updateTable('plans').set({ volume_attachments_per_workspace: 2 }).execute()
  const many = await post({ volume_id: await made('third'), mount_path: at('z') })
  assert.deepEqual(
    [many.status, many.body.error.code, many.body.error.details],
    [403, 'quota_exceeded', { limit: 'volume_attachments_per_workspace', limit_value: 2, current: 2 }],
  )
  await w.database.superuser.updateTable('plans').set({ volume_attachments_per_workspace: null }).execute()
  await w.database.superuser.updateTable('workspaces').set({ mode: 'file_first', tree_revision: 0 }).where('id', '=', workspace).execute()
  assert.deepEqual(reason(await post({})), [409, 'conflict', 'not_supported_for_mode'])
  assert.deepEqual(reason(await w.call('DELETE', attached(workspace, volume_id))), [409, 'conflict', 'not_supported_for_mode'])
})

test('a workspace has at most sixteen volumes, and a released mount slot is used again', async () => {
  const workspace = await w.ready('many')
  const ids: string[] = []
  for (let at_place = 0; at_place < 16; at_place++) {
    const id = await seeds.volume(w.a, w.cell_id)
    await seeds.attachment(workspace, id, { place: at_place })
    ids.push(id)
  }
  const volume_id = await made('seventeenth')
  const refused = await w.post(attached(workspace), { volume_id, mount_path: at('17') })
  assert.deepEqual(refused.body.error.details, { limit: 'volume_attachments_per_workspace', limit_value: 16, current: 16 })
  await w.database.superuser
    .deleteFrom('volume_attachments')
    .where('volume_id', '=', ids[5] ?? '')
    .execute()
  const { body } = await w.post(attached(workspace), { volume_id, mount_path: at('17') })
  const { place } = await w.database.superuser
    .selectFrom('volume_attachments')
    .select('place')
    .where('volume_id', '=', volume_id)
    .executeTakeFirstOrThrow()
  assert.equal(place, 5)
  await w.ended(body.operation.id)
})

test("a deletion waits for storage in creation, needs the volume's name to be forced, and repeats as one operation", async () => {
  const creating = await seeds.volume(w.a, w.cell_id, { state: 'creating' })
  assert.deepEqual(reason(await w.call('DELETE', path(creating))), [409, 'conflict', 'volume_creating'])
  // A forced deletion does not wait for the creating computer, which may be gone. The name is free at once.
  const held = Promise.withResolvers<void>()
  using _ = w.host.intercept('createVolume', 'before', () => held.promise)
  const stuck = (await w.post(`/v1/projects/${w.a.project_id}/volumes`, { name: 'stuck', quota_gib: 1 })).body
  const gone = await w.call('DELETE', `${path(stuck.volume.id)}?force=true&confirm_name=stuck`)
  assert.deepEqual([gone.status, gone.body.volume.state], [202, 'deleting'])
  assert.equal((await w.get(`/v1/operations/${stuck.operation.id}`)).body.state, 'canceled')
  const next = await w.post(`/v1/projects/${w.a.project_id}/volumes`, { name: 'stuck', quota_gib: 1 })
  assert.equal(next.status, 202)
  held.resolve()
  assert.equal((await w.ended(gone.body.operation.id)).state, 'succeeded')
  assert.equal((await w.ended(next.body.operation.id)).state, 'succeeded')
  const volume_id = await made('to-delete')
  const workspace = await w.ready('to-delete')
  await attach(workspace, volume_id)
  assert.deepEqual(reason(await w.call('DELETE', path(volume_id))), [409, 'conflict', 'volume_attached'])
  for (const query of ['?force=true', '?force=true&confirm_name=other', '?confirm_name=other']) {
    const { status, body } = await w.call('DELETE', `${path(volume_id)}${query}`)
    assert.deepEqual([status, body.error.details.field], [422, 'confirm_name'], query)
  }
  assert.deepEqual(reason(await w.call('DELETE', `${path(volume_id)}?confirm_name=to-delete`)), [409, 'conflict', 'volume_attached'])
  const forced = await w.call('DELETE', `${path(volume_id)}?force=true&confirm_name=to-delete`)
  assert.deepEqual([forced.status, forced.body.volume.state, forced.body.operation.kind], [202, 'deleting', 'volume_delete'])
  assert.equal((await w.ended(forced.body.operation.id)).state, 'succeeded')
  const again = await w.call('DELETE', path(volume_id))
  assert.deepEqual([again.status, again.body.volume.state, again.body.operation.id], [202, 'deleted', forced.body.operation.id])
  assert.deepEqual([(await w.get(attached(workspace))).body.data, w.host.volumes(workspace)], [[], []])
  assert.equal((await w.call('DELETE', path(unknown))).status, 404)
})
