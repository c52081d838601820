import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { worldWithCell, type CellWorld } from './with-cell.ts'
import { world, type Answer, type CallOptions, type World } from './support.ts'

/** World without a cell, whose operations stay queued. */
let still: World
let w: CellWorld
before(async () => {
  still = await world()
  w = await worldWithCell()
})
after(async () => {
  await still[Symbol.asyncDispose]()
  await w[Symbol.asyncDispose]()
})

const reason = ({ status, body }: Answer) => [status, body.error.code, body.error.details?.reason]
const path = (id: string, verb: string) => `/v1/workspaces/${id}/${verb}`
const unknown = '01920000-0000-7000-8000-000000000000'
const adopt = (of: World, id: string, fork_workspace_id: string, body: object = {}, options: CallOptions = {}) =>
  of.post(path(id, 'adopt'), { fork_workspace_id, ...body }, options)

async function family(key: string): Promise<{ id: string; fork: string }> {
  const id = await still.running(key)
  return { id, fork: await forkOf(id, `${key}-fork`) }
}

async function forkOf(id: string, key: string): Promise<string> {
  const { body } = await still.post(path(id, 'fork'), { key })
  await still.cell.succeed(body.operation.id)
  return body.workspace.id
}

const change = (id: string, columns: object) =>
  still.database.superuser
    .updateTable('workspaces')
    .set(columns as never)
    .where('id', '=', id)
    .execute()

test('an adoption answers its operation, locks both workspaces, and repeats under its Idempotency-Key', async () => {
  const { id, fork } = await family('adopts')
  const first = await adopt(still, id, fork, {}, { headers: { 'idempotency-key': 'adopt-1' } })
  assert.deepEqual(
    [first.status, first.body.kind, first.body.state, first.body.workspace_id, first.body.input],
    [202, 'adopt', 'queued', id, { fork_workspace_id: fork, delete_fork: false }],
  )
  const repeat = await adopt(still, id, fork, {}, { headers: { 'idempotency-key': 'adopt-1' } })
  assert.deepEqual([repeat.status, repeat.body], [202, first.body])
  for (const one of [id, fork]) {
    assert.equal((await still.get(`/v1/workspaces/${one}`)).body.active_operation.id, first.body.id)
    assert.deepEqual(reason(await still.post(path(one, 'suspend'))), [409, 'conflict', 'operation_in_progress'])
  }
  assert.deepEqual(reason(await adopt(still, id, fork)), [409, 'conflict', 'operation_in_progress'])
  const { details, action } = await still.database.superuser
    .selectFrom('audit_events')
    .select(['details', 'action'])
    .where('subject_id', '=', id)
    .where('action', '=', 'workspaces.adopt')
    .executeTakeFirstOrThrow()
  assert.deepEqual([action, details], ['workspaces.adopt', { fork_workspace_id: fork, delete_fork: false }])
})

test('an adoption is refused for the workspace first and for the fork second, each with its own reason', async () => {
  const { id, fork } = await family('refused')
  const other = await still.running('refused-other')
  assert.deepEqual(reason(await adopt(still, id, unknown)), [404, 'not_found', undefined])
  assert.deepEqual(reason(await adopt(still, unknown, fork)), [404, 'not_found', undefined])
  assert.deepEqual(reason(await adopt(still, id, other)), [409, 'conflict', undefined])
  assert.deepEqual(reason(await adopt(still, id, id)), [409, 'conflict', undefined])
  await change(fork, { observed_state: 'failed' })
  assert.deepEqual(reason(await adopt(still, id, fork)), [409, 'conflict', 'not_forkable'])
  await change(fork, { observed_state: 'suspended', desired_state: 'suspended' })
  assert.deepEqual(reason(await adopt(still, id, fork)), [409, 'conflict', 'not_snapshottable'], 'reset while suspended: blank')
  await change(fork, { mode: 'file_first', tree_revision: 0 })
  assert.deepEqual(reason(await adopt(still, id, fork)), [409, 'conflict', 'not_supported_for_mode'])
  await change(fork, {
    mode: 'processful',
    tree_revision: null,
    observed_state: 'deleted',
    desired_state: 'deleted',
    deleted_at: still.clock.now(),
  })
  const gone = await adopt(still, id, fork)
  assert.deepEqual([reason(gone), gone.body.error.message], [[409, 'conflict', 'workspace_deleted'], 'The fork is deleted'])
  await change(id, { observed_state: 'starting' })
  assert.deepEqual(reason(await adopt(still, id, fork)), [409, 'conflict', 'not_running'])
  await change(id, { mode: 'file_first', tree_revision: 0 })
  assert.deepEqual(reason(await adopt(still, id, fork)), [409, 'conflict', 'not_supported_for_mode'])
  await change(id, { observed_state: 'deleted', desired_state: 'deleted', deleted_at: still.clock.now() })
  assert.deepEqual(reason(await adopt(still, id, fork)), [409, 'conflict', 'workspace_deleted'])
})

test('relatives of any depth adopt each other in either direction; an unrelated fork is 404', async () => {
  const id = await still.running('depth')
  const child = await forkOf(id, 'depth-1')
  const grandchild = await forkOf(child, 'depth-2')
  const sibling = await forkOf(id, 'depth-3')
  for (const [one, other] of [
    [id, grandchild],
    [grandchild, id],
    [sibling, grandchild],
    [child, sibling],
  ] as const) {
    const { status, body } = await adopt(still, one, other)
    assert.equal(status, 202)
    await still.cell.succeed(body.id)
  }
  const theirs = (await still.open('theirs', {}, { as: still.b.key })).body
  await still.cell.succeed(theirs.operation.id)
  assert.deepEqual(reason(await adopt(still, id, theirs.workspace.id)), [404, 'not_found', undefined])
  assert.deepEqual(reason(await adopt(still, id, child, {}, { as: still.b.key })), [404, 'not_found', undefined])
  assert.deepEqual(reason(await adopt(still, id, child, {}, { as: still.a2.key })), [404, 'not_found', undefined])
})

test('of two workspaces that adopt each other at once, one succeeds and neither waits for ever', async () => {
  for (let turn = 0; turn < 8; turn++) {
    const { id, fork } = await family(`each-other-${turn}`)
    const answers = await Promise.all([adopt(still, id, fork), adopt(still, fork, id), adopt(still, id, fork)])
    assert.deepEqual(answers.map(({ status }) => status).sort(), [202, 409, 409])
    for (const answer of answers.filter(({ status }) => status === 409)) {
      assert.equal(answer.body.error.details.reason, 'operation_in_progress')
      assert.equal(answer.body.error.retryable, true)
    }
  }
})

test('a fork can be deleted during its adoption; the adoption stays, and deleting the workspace cancels it', async () => {
  const { id, fork } = await family('taken')
  const { body } = await adopt(still, id, fork, { delete_fork: true })
  assert.equal((await still.call('DELETE', `/v1/workspaces/${fork}`)).status, 202)
  assert.equal((await still.get(`/v1/operations/${body.id}`)).body.state, 'queued')
  assert.equal((await still.get(`/v1/workspaces/${fork}`)).body.active_operation.kind, 'delete')
  assert.equal((await still.call('DELETE', `/v1/workspaces/${id}`)).status, 202)
  assert.equal((await still.get(`/v1/operations/${body.id}`)).body.state, 'canceled')
  assert.equal((await still.get(`/v1/workspaces/${fork}`)).body.active_operation.kind, 'delete')
})

test('an adoption sets a failed workspace to the desired state suspended', async () => {
  const { id, fork } = await family('failed')
  await change(id, { observed_state: 'failed' })
  assert.equal((await adopt(still, id, fork)).status, 202)
  assert.equal((await still.get(`/v1/workspaces/${id}`)).body.desired_state, 'suspended')
})

test('deleting an adopted fork releases its key: an agent reuses the same names for its attempts', async () => {
  const id = await w.ready('agent', { lifetime: 'persistent' })
  for (let turn = 1; turn <= 3; turn++) {
    const forked = (await w.post(path(id, 'fork'), { key: 'attempt' })).body
    assert.equal((await w.ended(forked.operation.id)).state, 'succeeded')
    const fork = forked.workspace.id
    w.host.guest(fork).files.set('/turn', String(turn))
    const adopted = (await adopt(w, id, fork, { delete_fork: true })).body
    const { state, result } = await w.ended(adopted.id)
    assert.deepEqual([state, result.ownership_epoch, typeof result.recovery_checkpoint_id], ['succeeded', turn + 1, 'string'])
    assert.equal(w.host.guest(id).files.get('/turn'), String(turn))
    const gone = (await w.get(`/v1/workspaces/${fork}`)).body
    assert.deepEqual([gone.desired_state, gone.ended_reason], ['deleted', 'adopted'])
    const [deletion] = await w.operations(fork)
    assert.deepEqual([deletion.kind, deletion.input], ['delete', { reason: 'adopted', adopted_by: id }])
    await w.ended(deletion.id)
    const [record] = await w.database.superuser
      .selectFrom('audit_events')
      .select(['actor_kind', 'details'])
      .where('subject_id', '=', fork)
      .where('action', '=', 'workspaces.delete')
      .execute()
    assert.deepEqual(record, { actor_kind: 'service', details: { reason: 'adopted', adopted_by: id } })
  }
  const { body } = await w.get(path(id, 'checkpoints'))
  assert.deepEqual(body.data.map(({ kind }: { kind: string }) => kind).sort(), ['fork', 'recovery', 'recovery', 'recovery'])
  assert.notEqual(await w.ready('attempt'), id)
})

test("an adoption changes none of the workspace's settings, size, ports and lifetime", async () => {
  const id = await w.ready('settings', { caps: { memory_mib: 1024, disk_gib: 2 }, background_seconds: 600 })
  await w.call('PUT', `/v1/workspaces/${id}/ports/3000`)
  await w.call('PUT', `/v1/workspaces/${id}/idle-policy`, { body: { idle_policy: 'never' } })
  const forked = (await w.post(path(id, 'fork'), { key: 'settings-fork', caps: { memory_mib: 1024, disk_gib: 1 } })).body
  await w.ended(forked.operation.id)
  const before = (await w.get(`/v1/workspaces/${id}`)).body
  const adopted = (await adopt(w, id, forked.workspace.id)).body
  assert.equal((await w.ended(adopted.id)).state, 'succeeded')
  const now = (await w.get(`/v1/workspaces/${id}`)).body
  for (const name of ['id', 'key', 'caps', 'ceilings', 'grants', 'lifetime', 'template', 'observed_state'])
    assert.deepEqual(now[name], before[name], name)
  assert.deepEqual([now.idle.policy, now.idle.background_seconds], ['never', 600])
  assert.equal(now.ownership_epoch, Number(before.ownership_epoch) + 1)
  assert.deepEqual(
    (await w.get(path(id, 'ports'))).body.data.map(({ port }: { port: number }) => port),
    [3000],
  )
  assert.deepEqual((await w.get(path(forked.workspace.id, 'ports'))).body.data, [])
  const large = (await w.post(path(id, 'fork'), { key: 'settings-large', caps: { memory_mib: 2048 } })).body
  await w.ended(large.operation.id)
  const { state, error } = await w.ended((await adopt(w, id, large.workspace.id)).body.id)
  assert.deepEqual([state, error.code, error.details.reason], ['failed', 'invalid_resources', 'below_captured_memory'])
})
