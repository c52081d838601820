import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { keyKept, world, type World } from './support.ts'

let w: World
before(async () => {
  w = await world()
})
after(() => w[Symbol.asyncDispose]())

const reason = (answer: { status: number; body: { error: { code: string; details?: { reason?: string } } } }) =>
  [answer.status, answer.body.error.code, answer.body.error.details?.reason] as const
const path = (id: string, verb: string) => `/v1/workspaces/${id}/${verb}`

test('a suspend answers its operation, and a second lifecycle call gets operation_in_progress', async () => {
  const id = await w.running('suspend')
  const { status, body } = await w.post(path(id, 'suspend'))
  assert.deepEqual([status, body.kind, body.state, body.workspace_id], [202, 'suspend', 'queued', id])
  const view = (await w.get(`/v1/workspaces/${id}`)).body
  assert.deepEqual([view.desired_state, view.ready, view.active_operation.id], ['suspended', false, body.id])
  for (const [verb, given] of [
    ['suspend', undefined],
    ['resume', undefined],
    ['fork', { key: 'suspend-fork' }],
  ] as const) {
    const refused = await w.post(path(id, verb), given)
    assert.deepEqual(reason(refused), [409, 'conflict', 'operation_in_progress'])
    assert.deepEqual([refused.body.error.retryable, refused.body.error.operation_id], [true, body.id])
    assert.deepEqual(
      [refused.body.error.details.active_operation_id, refused.body.error.details.active_operation_kind],
      [body.id, 'suspend'],
    )
  }
  const early = await w.post(path(id, 'tool-tokens'), {})
  assert.deepEqual([reason(early), early.body.error.retryable], [[409, 'conflict', 'workspace_not_running'], true])
  await w.cell.succeed(body.id)
  assert.deepEqual(reason(await w.post(path(id, 'suspend'))), [409, 'conflict', 'not_running'])
})

test('a resume with a wait returns at the new epoch with a token', async () => {
  const id = await w.running('resume')
  assert.deepEqual(reason(await w.post(path(id, 'resume'))), [409, 'conflict', 'already_running'])
  const at_once = await w.post(path(id, 'resume'), { tools: ['files'] }, { headers: { prefer: 'wait=5' } })
  assert.deepEqual([at_once.status, at_once.body.operation, at_once.headers.get('preference-applied')], [200, null, null])
  assert.deepEqual(at_once.body.tool_token.tools, ['files'])
  await w.cell.succeed((await w.post(path(id, 'suspend'))).body.id)
  const started = await w.post(path(id, 'resume'))
  assert.deepEqual([started.status, Object.keys(started.body).sort()], [202, ['operation', 'workspace']])
  assert.deepEqual(reason(await w.post(path(id, 'tool-tokens'), {})), [409, 'conflict', 'workspace_not_running'])
  const held = w.post(path(id, 'resume'), {}, { headers: { prefer: 'wait=20', 'idempotency-key': 'r1' } })
  await keyKept(w, 'r1')
  await w.cell.succeed(started.body.operation.id)
  const { status, body, headers } = await held
  assert.deepEqual([status, body.operation.id, headers.get('preference-applied')], [200, started.body.operation.id, 'wait=20'])
  assert.equal(body.tool_token.ownership_epoch, body.workspace.ownership_epoch)
})

test('a resume with a tool that is not permitted creates nothing', async () => {
  const id = await w.running('resume-tools')
  await w.cell.succeed((await w.post(path(id, 'suspend'))).body.id)
  assert.equal((await w.post(path(id, 'resume'), { tools: ['pty'] })).status, 403)
  assert.equal((await w.get(`/v1/workspaces/${id}`)).body.active_operation, null)
})

test('a failed resume leaves the workspace suspended', async () => {
  const id = await w.running('resume-fails')
  await w.cell.succeed((await w.post(path(id, 'suspend'))).body.id)
  const { body } = await w.post(path(id, 'resume'))
  await w.cell.fail(body.operation.id, { code: 'checkpoint_corrupt', message: 'The checkpoint is damaged', retryable: false })
  const view = (await w.get(`/v1/workspaces/${id}`)).body
  assert.deepEqual([view.observed_state, view.desired_state], ['suspended', 'suspended'])
  const { error } = (await w.get(`/v1/operations/${body.operation.id}`)).body
  assert.deepEqual(error, { code: 'checkpoint_corrupt', message: 'The checkpoint is damaged', retryable: false, details: {} })
})

test('a fork makes a new workspace from its source, and locks both until the capture', async () => {
  const id = await w.running('source', { caps: { memory_mib: 2048 }, inputs: { CITY: 'Oslo' }, background_seconds: 600 })
  const { status, body } = await w.post(path(id, 'fork'), { key: 'copy', caps: { memory_mib: 1500 } })
  assert.deepEqual([status, body.operation.kind, body.operation.input], [202, 'fork', { source_workspace_id: id }])
  assert.deepEqual(
    [body.operation.workspace_id, body.workspace.observed_state, body.workspace.lifetime],
    [body.workspace.id, 'forking', 'persistent'],
  )
  assert.deepEqual(body.workspace.ceilings, { cpu_millis: 2000, memory_mib: 1500, disk_gib: 10 })
  assert.deepEqual((await w.get(path(body.workspace.id, 'inputs'))).body, { CITY: 'Oslo', COLOUR: 'blue' })
  const source = (await w.get(`/v1/workspaces/${id}`)).body
  assert.deepEqual([source.idle.background_seconds, body.workspace.idle.background_seconds], [600, 600])
  assert.deepEqual([source.observed_state, source.active_operation.id], ['running', body.operation.id])
  assert.deepEqual(reason(await w.post(path(id, 'suspend'))), [409, 'conflict', 'operation_in_progress'])
  assert.equal((await w.open('source')).status, 200)
  assert.equal((await w.open('copy')).body.operation.id, body.operation.id)
  await w.cell.succeed(body.operation.id)
  assert.equal((await w.open('copy')).status, 200)
})

test("a fork that waits for another's capture joins it, does not lock the source, and ends when the source is deleted", async () => {
  const id = await w.running('forked-often')
  const first = (await w.post(path(id, 'fork'), { key: 'often-1' })).body
  const others = await Promise.all(['often-2', 'often-3'].map((key) => w.post(path(id, 'fork'), { key })))
  assert.deepEqual(
    others.map(({ status, body }) => [status, body.operation.state, body.workspace.observed_state]),
    [
      [202, 'queued', 'forking'],
      [202, 'queued', 'forking'],
    ],
  )
  const active = async () => (await w.get(`/v1/workspaces/${id}`)).body.active_operation?.id
  assert.equal(await active(), first.operation.id)
  // The source is handed to the next waiting fork.
  assert.equal((await w.call('DELETE', `/v1/workspaces/${first.workspace.id}`)).status, 202)
  const handed = await active()
  assert.ok(others.some(({ body }) => body.operation.id === handed))
  assert.equal((await w.call('DELETE', `/v1/workspaces/${id}`)).status, 202)
  for (const { body } of others) {
    assert.equal((await w.get(`/v1/operations/${body.operation.id}`)).body.state, 'canceled')
    assert.equal((await w.get(`/v1/workspaces/${body.workspace.id}`)).body.ended_reason, 'fork_failed')
  }
})

test('a fork onto a used key is refused, also when that workspace is deleted', async () => {
  const id = await w.running('fork-source')
  await w.running('used')
  const dead = await w.running('dead')
  await w.call('DELETE', `/v1/workspaces/${dead}`)
  for (const key of ['used', 'dead', 'fork-source'])
    assert.deepEqual(reason(await w.post(path(id, 'fork'), { key })), [409, 'conflict', 'key_in_use'])
  assert.deepEqual(reason(await w.post(path(id, 'fork'), { key: 'sf:x' })), [422, 'validation_failed', 'reserved_key_prefix'])
  assert.equal((await w.get('/v1/workspaces?key_prefix=fork')).body.data.length, 1)
})

test('a suspended workspace can be forked, a failed one cannot', async () => {
  const id = await w.running('fork-states')
  await w.cell.succeed((await w.post(path(id, 'suspend'))).body.id)
  assert.equal((await w.post(path(id, 'fork'), { key: 'fork-suspended', lifetime: 'session' })).body.workspace.lifetime, 'session')
  const failed = await w.open('fork-failed')
  await w.cell.fail(failed.body.operation.id)
  assert.deepEqual(reason(await w.post(path(failed.body.workspace.id, 'fork'), { key: 'x' })), [409, 'conflict', 'not_forkable'])
})

test('N7: a delete answers when a cell has taken it, after a second at most', async () => {
  await using told = await world({ delete_told_seconds: 60 })
  const id = await told.running('told')
  let answered = false
  const deleting = told.call('DELETE', `/v1/workspaces/${id}`).finally(() => (answered = true))
  const held = async () => (await told.get(`/v1/workspaces/${id}`)).body.active_operation
  while ((await held()) === null) assert.equal(answered, false)
  await told.cell.move((await held()).id, 'running')
  const { status: told_status, body: operation } = await deleting // long before the 60 s of this wait
  assert.deepEqual([told_status, operation.state], [202, 'queued']) // the answer as it was stored for repeats
  assert.equal((await told.get(`/v1/operations/${operation.id}`)).body.state, 'running')

  await using untold = await world({ delete_told_seconds: 1 })
  const other = await untold.running('untold')
  const start = performance.now()
  const { status, body } = await untold.call('DELETE', `/v1/workspaces/${other}`)
  assert.deepEqual([status, body.state], [202, 'queued'])
  assert.ok(performance.now() - start >= 900)
})

test('a delete cancels the operation in progress, and its repeat answers the same operation', async () => {
  const opened = await w.open('delete')
  const id = opened.body.workspace.id
  const { status, body } = await w.call('DELETE', `/v1/workspaces/${id}`)
  assert.deepEqual([status, body.kind, body.state, body.input], [202, 'delete', 'queued', {}])
  const canceled = (await w.get(`/v1/operations/${opened.body.operation.id}`)).body
  assert.deepEqual([canceled.state, canceled.error.code, canceled.error.retryable], ['canceled', 'canceled', false])
  const view = (await w.get(`/v1/workspaces/${id}`)).body
  assert.deepEqual([view.observed_state, view.desired_state, view.active_operation.id], ['deleting', 'deleted', body.id])
  assert.equal((await w.call('DELETE', `/v1/workspaces/${id}`)).body.id, body.id)
  await w.cell.succeed(body.id)
  assert.equal((await w.call('DELETE', `/v1/workspaces/${id}`)).body.id, body.id)
  const { tokens_revoked_before } = await w.database.superuser
    .selectFrom('workspaces')
    .select('tokens_revoked_before')
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  assert.ok(tokens_revoked_before)
})

test('every command on a deleted workspace is workspace_deleted, except delete and the cancel that always succeeds', async () => {
  const id = await w.running('deleted')
  await w.call('DELETE', `/v1/workspaces/${id}`)
  const refused = [
    await w.post(path(id, 'suspend')),
    await w.post(path(id, 'resume')),
    await w.post(path(id, 'fork'), { key: 'never' }),
    await w.post(path(id, 'tool-tokens'), {}),
    await w.post(path(id, 'suspend-when-idle'), { after_seconds: 30 }),
    await w.call('PUT', path(id, 'idle-policy'), { body: { idle_policy: 'never' } }),
  ]
  for (const answer of refused) assert.deepEqual(reason(answer), [409, 'conflict', 'workspace_deleted'])
  assert.equal((await w.call('DELETE', path(id, 'suspend-when-idle'))).status, 200)
})

test('deleting the source of a fork that has captured nothing ends the target and frees its key', async () => {
  const id = await w.running('fork-cut')
  const { body } = await w.post(path(id, 'fork'), { key: 'fork-cut-copy' })
  await w.call('DELETE', `/v1/workspaces/${id}`)
  const target = (await w.get(`/v1/workspaces/${body.workspace.id}`)).body
  assert.deepEqual([target.observed_state, target.ended_reason], ['deleting', 'fork_failed'])
  assert.equal((await w.get(`/v1/operations/${body.operation.id}`)).body.state, 'canceled')
  const next = await w.open('fork-cut-copy')
  assert.deepEqual([next.status, next.body.workspace.id === body.workspace.id], [202, false])
})

test('deleting the target of a fork releases its source', async () => {
  const id = await w.running('fork-target-cut')
  const { body } = await w.post(path(id, 'fork'), { key: 'fork-target-cut-copy' })
  await w.call('DELETE', `/v1/workspaces/${body.workspace.id}`)
  assert.equal((await w.get(`/v1/workspaces/${id}`)).body.active_operation, null)
  assert.equal((await w.post(path(id, 'suspend'))).status, 202)
})

test('only a session can be closed', async () => {
  const id = await w.running('close')
  assert.deepEqual(reason(await w.post(path(id, 'close'))), [409, 'conflict', 'not_session'])
})

test('a suspend when idle is recorded, replaced, shown and cancelled', async () => {
  const id = await w.running('when-idle', { idle_policy: 'never' })
  const asked = await w.post(path(id, 'suspend-when-idle'), { after_seconds: 60 })
  assert.deepEqual([asked.status, asked.body.operation, asked.body.suspend_request.after_seconds], [202, null, 60])
  const { requested_at, not_before } = asked.body.suspend_request
  assert.equal(Date.parse(not_before) - Date.parse(requested_at), 60_000)
  assert.deepEqual(asked.body.workspace.idle, {
    policy: 'never',
    timeout_seconds: null,
    basis: 'never',
    next_eligible_at: not_before,
    next_eligible_by: 'request',
    suspend_request: asked.body.suspend_request,
    recent_activity: asked.body.workspace.idle.recent_activity,
    background_seconds: null,
    failed_suspends: 0,
  })
  const replaced = await w.post(path(id, 'suspend-when-idle'), { after_seconds: 30 })
  assert.equal((await w.get(`/v1/workspaces/${id}`)).body.idle.suspend_request.after_seconds, 30)
  assert.equal(replaced.status, 202)
  const cancelled = await w.call('DELETE', path(id, 'suspend-when-idle'))
  assert.deepEqual([cancelled.status, cancelled.body.idle.suspend_request], [200, null])
  assert.equal((await w.call('DELETE', path(id, 'suspend-when-idle'))).status, 200)
  for (const after_seconds of [29, 3601, 30.5, '60', null]) {
    assert.equal((await w.post(path(id, 'suspend-when-idle'), { after_seconds })).status, 422)
  }
  const suspend = await w.post(path(id, 'suspend'))
  const joined = await w.post(path(id, 'suspend-when-idle'), { after_seconds: 30 })
  assert.deepEqual([joined.status, joined.body.operation.id, joined.body.suspend_request], [202, suspend.body.id, null])
  await w.cell.succeed(suspend.body.id)
  assert.deepEqual(reason(await w.post(path(id, 'suspend-when-idle'), { after_seconds: 30 })), [409, 'conflict', 'not_running'])
})

test('an idle policy is set, cleared and checked', async () => {
  const id = await w.running('policy')
  const put = (idle_policy: unknown) => w.call('PUT', path(id, 'idle-policy'), { body: { idle_policy } })
  const set = (await put('fixed:60')).body.idle
  assert.deepEqual([set.policy, set.timeout_seconds, set.basis], ['fixed:60', 60, 'fixed'])
  assert.deepEqual((await put(null)).body.idle.policy, 'adaptive')
  for (const bad of ['fixed:59', 'fixed:604801', 'fixed:', 'fixed:1e3', 'Never', 60])
    assert.equal((await put(bad)).status, 422, String(bad))
  assert.equal((await w.call('PUT', path(id, 'idle-policy'), { body: {} })).status, 422)
  const session = await w.running('policy-session', { lifetime: 'session' })
  const refused = await w.call('PUT', path(session, 'idle-policy'), { body: { idle_policy: null } })
  assert.deepEqual(reason(refused), [409, 'conflict', 'session_lifetime'])
})

test('a held read of an operation returns when its state or reason changes', async () => {
  const { body } = await w.open('watched')
  const url = `/v1/operations/${body.operation.id}`
  const held = w.get(url, { headers: { prefer: 'wait=20' } })
  await new Promise((resolve) => setTimeout(resolve, 50))
  await w.cell.move(body.operation.id, 'capacity_pending', 'no_ready_host')
  const changed = await held
  assert.deepEqual([changed.status, changed.body.state, changed.headers.get('preference-applied')], [200, 'capacity_pending', 'wait=20'])
  assert.equal((await w.get(`/v1/workspaces/${body.workspace.id}`)).body.pending_reason, 'no_ready_host')
  await w.cell.succeed(body.operation.id)
  const ended = await w.get(url, { headers: { prefer: 'wait=20' } })
  assert.deepEqual([ended.body.state, ended.headers.get('preference-applied')], ['succeeded', null])
})
