import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Answer, seeder, SETTINGS, type World, world } from './support.ts'

let w: World
before(async () => {
  w = await world({ file_first: true })
})
after(() => w[Symbol.asyncDispose]())

const FILE_FIRST = { mode: 'file_first' }
const reason = ({ status, body }: Answer) => [status, body.error.code, body.error.details?.reason]
const rowsOf = (workspace_id: string) =>
  w.database.superuser.selectFrom('trees').selectAll().where('workspace_id', '=', workspace_id).execute()
const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<string, unknown>

test('a file-first workspace is ready at once: 200 with a token, running, at revision 0, without an operation', async () => {
  const opened = await w.open('tree', FILE_FIRST)
  assert.equal(opened.status, 200)
  const { workspace, operation, tool_token, cell_endpoint } = opened.body
  assert.deepEqual(
    [workspace.observed_state, workspace.desired_state, workspace.ready, workspace.mode, workspace.tree_revision, workspace.lifetime],
    ['running', 'running', true, 'file_first', 0, 'persistent'],
  )
  assert.deepEqual([workspace.disk_layout, workspace.grants, workspace.startup, workspace.active_operation], ['layered', null, null, null])
  assert.deepEqual([workspace.idle_timeout_seconds, workspace.idle.policy, workspace.idle.next_eligible_at], [null, 'never', null])
  assert.deepEqual([operation, typeof cell_endpoint, opened.body.ignored], [null, 'string', []])
  assert.deepEqual([claimsOf(tool_token.token)['ws'], claimsOf(tool_token.token)['epoch']], [workspace.id, workspace.ownership_epoch])
  const [row] = await rowsOf(workspace.id)
  assert.deepEqual([row?.revision, row?.root, row?.bytes], [0, null, 0])
  assert.deepEqual((await w.get(`/v1/workspaces/${workspace.id}/operations`)).body.data, [])
})

test('an open of its key, with or without its mode and with the same Idempotency-Key, returns the same workspace', async () => {
  const headers = { 'idempotency-key': 'open-tree-twice' }
  const first = await w.open('again', FILE_FIRST, { headers })
  const repeat = await w.open('again', FILE_FIRST, { headers })
  const reopened = await w.open('again')
  const { id } = first.body.workspace
  for (const answer of [first, repeat, reopened, await w.open('again', FILE_FIRST)]) {
    assert.deepEqual([answer.status, answer.body.workspace.id, answer.body.operation], [200, id, null])
    assert.equal(typeof answer.body.tool_token.token, 'string')
  }
  assert.equal(repeat.headers.get('idempotent-replayed'), 'true')
})

test('concurrent opens of one key make one workspace', async () => {
  const all = await Promise.all(Array.from({ length: 8 }, () => w.open('race', FILE_FIRST)))
  const ids = new Set(all.filter(({ status }) => status === 200).map(({ body }) => body.workspace.id))
  assert.deepEqual([ids.size, all.every(({ status }) => status === 200)], [1, true])
})

test('another mode for an existing key, a session lifetime and an idle policy are refused', async () => {
  const seeds = seeder(w.database, w.clock, w.ids)
  await seeds.template(w.a.organization_id, 'flat', SETTINGS, false)
  await seeds.template(w.a.organization_id, 'sessions', { ...SETTINGS, defaults: { ...SETTINGS.defaults, lifetime: 'session' } })
  await w.open('here', FILE_FIRST)
  const refused = async (body: object, expected: unknown, details?: object) => {
    const answer = await w.open('n1', body)
    assert.deepEqual(reason(answer), expected, JSON.stringify(body))
    if (details) assert.deepEqual(answer.body.error.details, details)
  }
  const [mismatch, unsupported] = [
    [409, 'conflict', 'mode_mismatch'],
    [422, 'validation_failed', 'not_supported_for_mode'],
  ]
  await refused({ key: 'here', mode: 'processful' }, mismatch, {
    reason: 'mode_mismatch',
    mode: 'file_first',
    requested_mode: 'processful',
  })
  await refused({ ...FILE_FIRST, lifetime: 'session' }, unsupported, {
    reason: 'not_supported_for_mode',
    field: 'lifetime',
    mode: 'file_first',
  })
  await refused({ ...FILE_FIRST, idle_policy: 'never' }, unsupported, {
    reason: 'not_supported_for_mode',
    field: 'idle_policy',
    mode: 'file_first',
  })
  await refused({ key: 'here', idle_policy: 'never' }, unsupported)
  await refused({ key: 'here', lifetime: 'session' }, [409, 'conflict', 'lifetime_mismatch'])
  await refused({ ...FILE_FIRST, template: 'flat' }, [409, 'conflict', 'layout_unsupported'], {
    reason: 'layout_unsupported',
    disk_layouts: ['legacy'],
  })
  assert.deepEqual((await w.get('/v1/workspaces?key_prefix=n1')).body.data, [])
  assert.equal((await w.open('of-sessions', { ...FILE_FIRST, template: 'sessions' })).body.workspace.lifetime, 'persistent')
})

test('a deployment without file-first workspaces refuses to open one', async () => {
  await using without = await world()
  assert.deepEqual(reason(await without.open('n1', FILE_FIRST)), [422, 'validation_failed', 'mode_not_available'])
})

test('it counts for no limit of running workspaces, and its opens are refused as starts when the plan refuses starts', async () => {
  const db = w.database.superuser
  const { plan_id } = await db.selectFrom('organizations').select('plan_id').where('id', '=', w.b.organization_id).executeTakeFirstOrThrow()
  const limited = await seeder(w.database, w.clock, w.ids).plan('one-only', { concurrent_workspaces: 1 })
  const set = (change: object) => db.updateTable('organizations').set(change).where('id', '=', w.b.organization_id).execute()
  const open = (key: string, body: object = FILE_FIRST) => w.open(key, body, { as: w.b.key })
  await set({ plan_id: limited })
  for (const key of ['t1', 't2']) assert.equal((await open(key)).status, 200)
  assert.equal((await open('machine', {})).status, 202)
  assert.deepEqual(reason(await open('machine-2', {})), [403, 'quota_exceeded', undefined])
  assert.equal((await open('t3')).status, 200)
  await set({ allowance_exhausted: 'allowance_used' })
  for (const key of ['t1', 't4']) assert.deepEqual(reason(await open(key)), [402, 'allowance_exhausted', 'allowance_used'], key)
  await set({ allowance_exhausted: null, refuses_starts: 'unpaid' })
  for (const key of ['t1', 't4']) assert.deepEqual(reason(await open(key)), [402, 'entitlement_required', 'unpaid'], key)
  await set({ refuses_starts: null, plan_id })
})

test("every machine call of the application API is refused for the workspace's mode", async () => {
  const { id } = (await w.open('refusing', FILE_FIRST)).body.workspace
  const checkpoint_id = w.ids.next()
  const calls: [string, string, object?][] = [
    ['POST', 'suspend'],
    ['POST', 'resume'],
    ['POST', 'snapshot', {}],
    ['POST', 'suspend-when-idle', { after_seconds: 60 }],
    ['POST', 'fork', { key: 'forked' }],
    ['POST', 'reset', { confirm_destructive: true }],
    ['POST', 'restore', { checkpoint_id }],
    ['PUT', 'idle-policy', { idle_policy: null }],
  ]
  for (const [method, verb, body] of calls) {
    const answer = await w.call(method, `/v1/workspaces/${id}/${verb}`, body === undefined ? {} : { body })
    assert.deepEqual(reason(answer), [409, 'conflict', 'not_supported_for_mode'], verb)
    const { mode, operation } = answer.body.error.details
    assert.deepEqual([mode, operation], ['file_first', verb.replaceAll('-', '_')], verb)
  }
  assert.deepEqual(reason(await w.post(`/v1/workspaces/${id}/close`)), [409, 'conflict', 'not_session'])
  assert.equal((await w.get(`/v1/workspaces/${id}`)).body.observed_state, 'running')
})

test('an open without a computer to keep its files says so and creates nothing', async () => {
  await using empty = await world({ file_first: true })
  await empty.database.superuser.updateTable('cells').set({ seen_at: null }).execute()
  const answer = await empty.open('nowhere', FILE_FIRST)
  assert.deepEqual([...reason(answer), answer.body.error.retryable], [503, 'dependency_unavailable', undefined, true])
  assert.deepEqual((await empty.get('/v1/workspaces')).body.data, [])
})

test('an operation deletes it, and its key is not used again', async () => {
  const { id } = (await w.open('short', FILE_FIRST)).body.workspace
  const deleted = await w.call('DELETE', `/v1/workspaces/${id}`)
  assert.deepEqual([deleted.status, deleted.body.kind, deleted.body.state], [202, 'delete', 'queued'])
  assert.deepEqual(reason(await w.open('short', FILE_FIRST)), [409, 'conflict', 'workspace_deleted'])
})
