import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { seeder, world, type World } from './support.ts'

let w: World
let checkpoint: ReturnType<typeof seeder>['checkpoint']
before(async () => {
  w = await world()
  ;({ checkpoint } = seeder(w.database, w.clock, w.ids))
})
after(() => w[Symbol.asyncDispose]())

const reason = (answer: { status: number; body: { error: { code: string; details?: { reason?: string } } } }) =>
  [answer.status, answer.body.error.code, answer.body.error.details?.reason] as const
const path = (id: string, verb: string) => `/v1/workspaces/${id}/${verb}`
const unknown = '01920000-0000-7000-8000-000000000000'
const confirmed = { confirm_destructive: true }

test('snapshot, restore and reset answer their operation, and repeat under one Idempotency-Key', async () => {
  const id = await w.running('checkpoints')
  const first = await w.post(path(id, 'snapshot'), { label: 'mine' }, { headers: { 'idempotency-key': 'snapshot-1' } })
  assert.deepEqual([first.status, first.body.kind, first.body.state, first.body.input], [202, 'snapshot', 'queued', { label: 'mine' }])
  const repeat = await w.post(path(id, 'snapshot'), { label: 'mine' }, { headers: { 'idempotency-key': 'snapshot-1' } })
  assert.deepEqual([repeat.status, repeat.body.id], [202, first.body.id])
  assert.equal((await w.get(`/v1/workspaces/${id}`)).body.observed_state, 'running')
  assert.deepEqual(reason(await w.post(path(id, 'reset'), confirmed)), [409, 'conflict', 'operation_in_progress'])
  assert.deepEqual(reason(await w.post(path(id, 'restore'), { checkpoint_id: unknown })), [409, 'conflict', 'operation_in_progress'])
  assert.deepEqual(reason(await w.post(path(id, 'snapshot'))), [409, 'conflict', 'operation_in_progress'])
})

test('a label is any text but NUL and lone surrogates, including empty and multi-line text', async () => {
  for (const label of ['', 'two\nlines', 'x'.repeat(4096)]) {
    const { status, body } = await w.post(path(await w.running(`label-${label.length}`), 'snapshot'), { label })
    assert.deepEqual([status, body.input], [202, { label }])
  }
  const id = await w.running('label-bad')
  for (const label of ['a\0', '\udc00', 'x'.repeat(4097)]) assert.equal((await w.post(path(id, 'snapshot'), { label })).status, 422)
})

test('a reset demands confirm_destructive after it checks the layout, and before anything that may change', async () => {
  const id = await w.running('reset-rules')
  for (const body of [undefined, {}, { confirm_destructive: false }]) {
    assert.deepEqual(reason(await w.post(path(id, 'reset'), body)), [422, 'validation_failed', 'confirm_destructive_required'])
  }
  assert.equal((await w.get(`/v1/workspaces/${id}`)).body.active_operation, null)
  const { status, body } = await w.post(path(id, 'reset'), confirmed)
  assert.deepEqual([status, body.kind], [202, 'reset'])
  assert.deepEqual(reason(await w.post(path(id, 'reset'), {})), [422, 'validation_failed', 'confirm_destructive_required'])
  await w.database.superuser.updateTable('workspaces').set({ disk_layout: 'legacy' }).where('id', '=', id).execute()
  assert.deepEqual(reason(await w.post(path(id, 'reset'), {})), [409, 'conflict', 'legacy_disk_layout'])
})

test('snapshot, restore and reset each refuse a workspace that neither runs nor is suspended with their own reason', async () => {
  const id = await w.running('refused')
  await w.database.superuser.updateTable('workspaces').set({ observed_state: 'failed' }).where('id', '=', id).execute()
  assert.deepEqual(reason(await w.post(path(id, 'snapshot'))), [409, 'conflict', 'not_snapshottable'])
  assert.deepEqual(reason(await w.post(path(id, 'reset'), confirmed)), [409, 'conflict', 'not_resettable'])
  assert.deepEqual(reason(await w.post(path(id, 'restore'), { checkpoint_id: unknown })), [404, 'not_found', 'checkpoint_not_found'])
  await w.database.superuser.updateTable('workspaces').set({ observed_state: 'starting' }).where('id', '=', id).execute()
  assert.deepEqual(reason(await w.post(path(id, 'restore'), { checkpoint_id: unknown })), [409, 'conflict', 'not_running'])
  await w.database.superuser
    .updateTable('workspaces')
    .set({ observed_state: 'suspended', desired_state: 'suspended' })
    .where('id', '=', id)
    .execute()
  assert.deepEqual(reason(await w.post(path(id, 'snapshot'))), [409, 'conflict', 'not_snapshottable'], 'reset while suspended: blank')
})

test('a failed workspace is restored to its own checkpoint, with the desired state suspended', async () => {
  const id = await w.running('failed-restored')
  await w.database.superuser.updateTable('workspaces').set({ observed_state: 'failed' }).where('id', '=', id).execute()
  const { status, body } = await w.post(path(id, 'restore'), { checkpoint_id: await checkpoint(id) })
  assert.deepEqual([status, body.kind], [202, 'restore'])
  assert.equal((await w.get(`/v1/workspaces/${id}`)).body.desired_state, 'suspended')
})

test('deleted and file-first workspaces are refused before any other check', async () => {
  const id = await w.running('deleted')
  await w.database.superuser.updateTable('workspaces').set({ mode: 'file_first' }).where('id', '=', id).execute()
  const each = [
    ['snapshot', undefined],
    ['restore', { checkpoint_id: unknown }],
    ['reset', {}],
  ] as const
  for (const [verb, body] of each) assert.deepEqual(reason(await w.post(path(id, verb), body)), [409, 'conflict', 'not_supported_for_mode'])
  await w.call('DELETE', `/v1/workspaces/${id}`)
  for (const [verb, body] of each) assert.deepEqual(reason(await w.post(path(id, verb), body)), [409, 'conflict', 'workspace_deleted'])
})

test('a checkpoint of another workspace and an expired one are checkpoint_not_found', async () => {
  const [id, other] = [await w.running('restored'), await w.running('other')]
  const mine = await checkpoint(id, { kind: 'recovery', expires_at: new Date(Date.now() - 1000) })
  const theirs = await checkpoint(other)
  for (const checkpoint_id of [unknown, mine, theirs]) {
    assert.deepEqual(reason(await w.post(path(id, 'restore'), { checkpoint_id })), [404, 'not_found', 'checkpoint_not_found'])
  }
  const { status, body } = await w.post(path(other, 'restore'), { checkpoint_id: theirs })
  assert.deepEqual([status, body.kind, body.input], [202, 'restore', { checkpoint_id: theirs }])
})

test('the list is newest first, has pages, and shows only restorable checkpoints', async () => {
  const id = await w.running('listed')
  const ids = []
  for (const label of ['a', 'b', 'c']) ids.unshift(await checkpoint(id, { label }))
  await checkpoint(id, { kind: 'recovery', expires_at: new Date(Date.now() - 1000) })
  const first = (await w.get(`${path(id, 'checkpoints')}?limit=2`)).body
  const second = (await w.get(`${path(id, 'checkpoints')}?limit=2&cursor=${first.next_cursor}`)).body
  assert.deepEqual(
    [...first.data, ...second.data].map((one: { id: string }) => one.id),
    ids,
  )
  assert.equal(second.next_cursor, null)
  assert.deepEqual(Object.keys(first.data[0]).sort(), [
    'created_at',
    'disk_bytes',
    'expires_at',
    'id',
    'kind',
    'label',
    'memory',
    'operation_id',
    'resources',
    'size_bytes',
    'workspace_id',
  ])
})

test('the number of snapshots of a workspace is bounded', async () => {
  const id = await w.running('many')
  for (let count = 0; count < LIMITS.workspace.snapshots_per_workspace_max; count++) await checkpoint(id)
  const refused = await w.post(path(id, 'snapshot'))
  assert.deepEqual([refused.status, refused.body.error.code], [403, 'quota_exceeded'])
  assert.deepEqual(refused.body.error.details, {
    limit: 'snapshots_per_workspace',
    limit_value: LIMITS.workspace.snapshots_per_workspace_max,
    current: LIMITS.workspace.snapshots_per_workspace_max,
  })
})

const one = (id: string, checkpoint_id: string) => `/v1/workspaces/${id}/checkpoints/${checkpoint_id}`
const listed = async (id: string) => (await w.get(path(id, 'checkpoints'))).body.data.map((each: { id: string }) => each.id)

test('a deleted checkpoint is not listed or restored and frees capacity for another, and its delete can be repeated', async () => {
  const id = await w.running('given-up')
  const kept = await checkpoint(id)
  const all = []
  for (let count = 1; count < LIMITS.workspace.snapshots_per_workspace_max; count++) all.push(await checkpoint(id))
  const [first = '', recovery] = [all[0], await checkpoint(id, { kind: 'recovery', expires_at: new Date(Date.now() + 60_000) })]
  assert.equal((await w.post(path(id, 'snapshot'))).status, 403)
  for (const checkpoint_id of [...all, recovery, first]) {
    const { status, body } = await w.call('DELETE', one(id, checkpoint_id))
    assert.deepEqual([status, body], [204, undefined])
  }
  assert.deepEqual(await listed(id), [kept])
  assert.deepEqual(reason(await w.post(path(id, 'restore'), { checkpoint_id: first })), [404, 'not_found', 'checkpoint_not_found'])
  assert.equal((await w.post(path(id, 'snapshot'))).status, 202)
})

test('a checkpoint that is expired, unknown or of another workspace cannot be deleted', async () => {
  const [id, other] = [await w.running('deletes'), await w.running('keeps')]
  const theirs = await checkpoint(other)
  const over = await checkpoint(id, { kind: 'recovery', expires_at: new Date(Date.now() - 1000) })
  for (const checkpoint_id of [unknown, theirs, over]) {
    assert.deepEqual(reason(await w.call('DELETE', one(id, checkpoint_id))), [404, 'not_found', 'checkpoint_not_found'])
  }
  assert.deepEqual(await listed(other), [theirs])
  assert.equal((await w.call('DELETE', one(id, 'x'))).status, 422)
  assert.equal((await w.call('DELETE', one(id, theirs), { as: w.b.key })).body.error.details, undefined)
})

test('the checkpoint that a workspace would continue from cannot be deleted', async () => {
  const id = await w.running('stands-on-it')
  const [standing, another] = [await checkpoint(id), await checkpoint(id)]
  const workspaces = w.database.superuser.updateTable('workspaces').where('id', '=', id)
  for (const [observed_state, desired_state] of [
    ['suspended', 'suspended'],
    ['failed', 'running'],
  ] as const) {
    // prettier-ignore
    await workspaces.set({ observed_state, desired_state, checkpoint_id: standing }).execute()
    assert.deepEqual(reason(await w.call('DELETE', one(id, standing))), [409, 'conflict', 'not_running'])
  }
  assert.deepEqual(await listed(id), [another, standing])
  assert.equal((await w.call('DELETE', one(id, another))).status, 204)
  await workspaces.set({ observed_state: 'running', desired_state: 'running', checkpoint_id: null }).execute()
  assert.equal((await w.call('DELETE', one(id, standing))).status, 204)
})

test('a restore and a delete of one checkpoint never both succeed', async () => {
  const id = await w.running('raced')
  const checkpoint_id = await checkpoint(id)
  const [restored, deleted] = await Promise.all([w.post(path(id, 'restore'), { checkpoint_id }), w.call('DELETE', one(id, checkpoint_id))])
  const outcome = [restored.status, deleted.status]
  assert.ok([[202, 409], [404, 204]].some((one) => one.join() === outcome.join()), outcome.join()) // prettier-ignore
  if (deleted.status !== 409) return
  assert.deepEqual(reason(deleted), [409, 'conflict', 'operation_in_progress'])
  assert.equal(deleted.body.error.operation_id, restored.body.id)
})

test('people of the billing role delete no checkpoint, and neither do deleted workspaces and those of another mode', async () => {
  const id = await w.running('not-theirs')
  const checkpoint_id = await checkpoint(id)
  const { token } = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'billing')
  assert.equal((await w.call('DELETE', one(id, checkpoint_id), { as: token })).status, 403)
  await w.database.superuser.updateTable('workspaces').set({ mode: 'file_first' }).where('id', '=', id).execute()
  assert.deepEqual(reason(await w.call('DELETE', one(id, checkpoint_id))), [409, 'conflict', 'not_supported_for_mode'])
  await w.call('DELETE', `/v1/workspaces/${id}`)
  assert.deepEqual(reason(await w.call('DELETE', one(id, checkpoint_id))), [409, 'conflict', 'workspace_deleted'])
})

test('a restore without memory tells the cell so, and may name the checkpoint of a hibernated workspace', async () => {
  const id = await w.running('without-memory')
  const mine = await checkpoint(id)
  const asleep = await w.running('sleeps')
  const parked = await checkpoint(asleep)
  const { superuser: db } = w.database
  await db.updateTable('checkpoints').set({ kind: 'parked' }).where('id', '=', parked).execute()
  await db.updateTable('workspaces').set({ residency: 'hibernated', checkpoint_id: parked }).where('id', '=', asleep).execute()
  const restore = (workspace_id: string, body: object) => w.post(path(workspace_id, 'restore'), body)
  for (const body of [
    { checkpoint_id: unknown, memory: false },
    { checkpoint_id: parked, memory: false },
  ])
    assert.deepEqual(reason(await restore(id, body)), [404, 'not_found', 'checkpoint_not_found'])
  for (const memory of [undefined, true])
    assert.deepEqual(reason(await restore(asleep, { checkpoint_id: parked, memory })), [404, 'not_found', 'checkpoint_not_found'])
  assert.equal((await restore(id, { checkpoint_id: mine, memory: 'no' })).status, 422)
  const inputs = []
  for (const [of, body] of [
    [id, { checkpoint_id: mine, memory: false }],
    [asleep, { checkpoint_id: parked, memory: false }],
  ] as const)
    // prettier-ignore
    inputs.push((await restore(of, body)).body.input)
  assert.deepEqual(inputs, [
    { checkpoint_id: mine, memory: false },
    { checkpoint_id: parked, memory: false },
  ])
  const again = await w.running('with-memory')
  const { body } = await restore(again, { checkpoint_id: await checkpoint(again, { label: 'x' }), memory: true })
  assert.deepEqual(Object.keys(body.input), ['checkpoint_id'])
  await db.updateTable('checkpoints').set({ engine: '' }).where('id', '=', mine).execute()
  assert.equal((await w.get(path(id, 'checkpoints'))).body.data[0].memory, false)
  assert.equal((await w.get(path(again, 'checkpoints'))).body.data[0].memory, true)
})
