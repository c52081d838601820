import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../support/processes.ts'
import { keyKept, seeder, SETTINGS, world, type World } from './support.ts'

let w: World
before(async () => {
  w = await world()
})
after(() => w[Symbol.asyncDispose]())

const reason = (answer: { status: number; body: { error: { code: string; details?: { reason?: string } } } }) =>
  [answer.status, answer.body.error.code, answer.body.error.details?.reason] as const

test('the first open of a key creates workspace and operation, and returns both', async () => {
  const { status, body, headers } = await w.open('first', { caps: { memory_mib: 512 }, inputs: { CITY: 'Rome' } })
  assert.equal(status, 202)
  assert.equal(headers.get('preference-applied'), null)
  assert.equal(body.tool_token, null)
  assert.equal(body.cell_endpoint, 'http://one.cell.test')
  assert.deepEqual([body.operation.kind, body.operation.state, body.operation.workspace_id], ['open', 'queued', body.workspace.id])
  const { workspace } = body
  assert.deepEqual(
    { state: workspace.observed_state, desired: workspace.desired_state, ready: workspace.ready, active: workspace.active_operation.id },
    { state: 'creating', desired: 'running', ready: false, active: body.operation.id },
  )
  assert.deepEqual(workspace.template, { slug: 'base', version: 1 })
  assert.deepEqual(workspace.ceilings, { cpu_millis: 2000, memory_mib: 512, disk_gib: 10 })
  assert.deepEqual([workspace.caps, workspace.grants], [{ memory_mib: 512 }, null])
  assert.deepEqual(workspace.idle, {
    policy: 'adaptive',
    timeout_seconds: 300,
    basis: 'default',
    next_eligible_at: null,
    next_eligible_by: null,
    suspend_request: null,
    recent_activity: { active_at: workspace.created_at, tool_call_at: null, busy_until: null, keepalive_until: null },
    background_seconds: null,
    failed_suspends: 0,
  })
  assert.deepEqual((await w.get(`/v1/workspaces/${workspace.id}/inputs`)).body, { CITY: 'Rome', COLOUR: 'blue' })
  assert.deepEqual((await w.get(`/v1/workspaces/${workspace.id}`)).body, workspace)
})

test('a held open answers 200 with a token as soon as the operation succeeds', async () => {
  const held = w.open('held', { agent_label: 'builder', tools: ['exec'] }, { headers: { prefer: 'wait=20' } })
  const operation_id = await waitForOperation('held')
  const ended_ms = performance.now()
  await w.cell.succeed(operation_id)
  const { status, body, headers } = await held
  assert.ok(performance.now() - ended_ms < 10_000, 'it is told, and does not wait for the end of its 20 s')
  assert.deepEqual(
    [status, headers.get('preference-applied'), body.operation.state, body.workspace.ready],
    [200, 'wait=20', 'succeeded', true],
  )
  assert.deepEqual(
    [body.tool_token.tools, body.tool_token.ownership_epoch, body.tool_token.audience],
    [['exec'], 1, 'http://one.cell.test'],
  )
})

test('a held open answers 202 when its wait elapses or its operation fails', async () => {
  const elapsed = await w.open('elapsed', {}, { headers: { prefer: 'wait=1' } })
  assert.deepEqual([elapsed.status, elapsed.headers.get('preference-applied'), elapsed.body.operation.state], [202, 'wait=1', 'queued'])
  const held = w.open('elapsed', {}, { headers: { prefer: 'wait=20', 'idempotency-key': 'elapsed' } })
  await keyKept(w, 'elapsed') // the call has joined the operation
  await w.cell.fail(elapsed.body.operation.id)
  const { status, body } = await held
  assert.deepEqual(
    [status, body.operation.state, body.operation.error.code, body.workspace.observed_state],
    [202, 'failed', 'internal_error', 'failed'],
  )
  const again = await w.open('elapsed')
  assert.deepEqual([again.status, again.body.operation.kind, again.body.workspace.id], [202, 'open', elapsed.body.workspace.id])
})

test('reopening a running key answers 200 at once with a token and changes nothing', async () => {
  const id = await w.running('again', { idle_policy: 'fixed:120' })
  const before = (await w.get(`/v1/workspaces/${id}`)).body
  const { status, body } = await w.open('again', { template: 'no-such', caps: { cpu_millis: 1 }, idle_policy: 'never', secrets: [] })
  assert.deepEqual([status, body.operation, body.workspace], [200, null, before])
  assert.equal(body.tool_token.workspace_id, id)
})

test('given inputs replace all inputs of an existing workspace, and omitted inputs change nothing', async () => {
  const id = await w.running('inputs', { inputs: { CITY: 'Rome', COLOUR: 'red' } })
  await w.open('inputs')
  assert.deepEqual((await w.get(`/v1/workspaces/${id}/inputs`)).body, { CITY: 'Rome', COLOUR: 'red' })
  assert.equal((await w.open('inputs', { inputs: { CITY: 'Bern' } })).status, 200)
  assert.deepEqual((await w.get(`/v1/workspaces/${id}/inputs`)).body, { CITY: 'Bern', COLOUR: 'blue' })
})

test('30 concurrent opens of one key through two processes make one workspace and one operation', async () => {
  const second = await w.second()
  const opens = await Promise.all(Array.from({ length: 30 }, (_, n) => w.open('crowd', {}, { base: n % 2 ? second : w.base })))
  assert.deepEqual([...new Set(opens.map((answer) => answer.status))], [202])
  assert.equal(new Set(opens.map((answer) => answer.body.workspace.id)).size, 1)
  assert.equal(new Set(opens.map((answer) => answer.body.operation.id)).size, 1)
  const rows = await w.database.superuser.selectFrom('workspaces').select('id').where('key', '=', 'crowd').execute()
  assert.equal(rows.length, 1)
})

test('a client that disconnects during an open leaves the operation as it is', async () => {
  const controller = new AbortController()
  const gone = w
    .open('left', {}, { headers: { prefer: 'wait=20' }, signal: controller.signal })
    .catch((error: unknown) => (error as Error).name)
  const operation_id = await waitForOperation('left')
  controller.abort()
  assert.equal(await gone, 'AbortError')
  assert.equal((await w.get(`/v1/operations/${operation_id}`)).body.state, 'queued')
  await w.cell.succeed(operation_id)
  assert.equal((await w.open('left')).status, 200)
})

test('an open of a suspended key resumes it, and joins a start in progress', async () => {
  const id = await w.running('nap')
  await w.cell.succeed((await w.post(`/v1/workspaces/${id}/suspend`)).body.id)
  const [one, two, three] = [await w.open('nap'), await w.open('nap'), await w.post(`/v1/workspaces/${id}/resume`)]
  assert.deepEqual([one.status, one.body.operation.kind], [202, 'resume'])
  assert.deepEqual([two.body.operation.id, three.body.operation.id, three.status], [one.body.operation.id, one.body.operation.id, 202])
})

test('a session has its own idle time and cannot be suspended, and its key opens a new workspace after it is closed', async () => {
  const id = await w.running('chat', { lifetime: 'session' })
  const { body } = await w.get(`/v1/workspaces/${id}`)
  assert.deepEqual([body.idle.timeout_seconds, body.idle.basis, body.idle_timeout_seconds], [600, 'session', 600])
  assert.deepEqual(reason(await w.post(`/v1/workspaces/${id}/suspend`)), [409, 'conflict', 'session_lifetime'])
  assert.deepEqual(reason(await w.open('chat', { idle_policy: 'never' })), [409, 'conflict', 'session_lifetime'])
  const closed = await w.post(`/v1/workspaces/${id}/close`)
  assert.deepEqual([closed.status, closed.body.kind, closed.body.input], [202, 'delete', { reason: 'session_closed' }])
  assert.equal((await w.post(`/v1/workspaces/${id}/close`)).body.id, closed.body.id)
  const next = await w.open('chat', { lifetime: 'persistent' })
  assert.deepEqual([next.status, next.body.workspace.id === id, next.body.workspace.lifetime], [202, false, 'persistent'])
  await w.cell.succeed(closed.body.id)
  const tombstone = (await w.get(`/v1/workspaces/${id}`)).body
  assert.deepEqual([tombstone.observed_state, tombstone.ended_reason, tombstone.deleted_at !== null], ['deleted', 'closed', true])
})

test('a deleted key is never used again', async () => {
  const id = await w.running('gone')
  await w.call('DELETE', `/v1/workspaces/${id}`)
  assert.deepEqual(reason(await w.open('gone')), [409, 'conflict', 'workspace_deleted'])
})

test('an open refuses invalid bodies', async () => {
  await w.running('live')
  for (const [body, expected] of [
    [{ key: 'sf:x' }, [422, 'validation_failed', 'reserved_key_prefix']],
    [{ key: 'live', lifetime: 'session' }, [409, 'conflict', 'lifetime_mismatch']],
    [{ key: 'live', mode: 'file_first' }, [409, 'conflict', 'mode_mismatch']],
    [{ key: 'n1', mode: 'file_first' }, [422, 'validation_failed', 'mode_not_available']],
    [{ key: 'n1', mode: 'file_first', lifetime: 'session' }, [422, 'validation_failed', 'not_supported_for_mode']],
    [{ key: 'n1', mode: 'file_first', idle_policy: 'never' }, [422, 'validation_failed', 'not_supported_for_mode']],
    [{ key: 'n1', lifetime: 'session', idle_policy: 'never' }, [409, 'conflict', 'session_lifetime']],
    [{ key: 'n1', secrets: ['TOKEN'] }, [422, 'validation_failed', 'secret_not_available']],
    [{ key: 'live', secrets: ['TOKEN'] }, [422, 'validation_failed', 'secret_not_available']],
    [{ key: 'n1', inputs: { NOPE: 'x' } }, [422, 'validation_failed', 'input_unknown']],
    [{ key: 'n1', inputs: { ['x'.repeat(201)]: 'x' } }, [422, 'validation_failed', 'input_unknown']],
    [{ key: 'n1', inputs: { 'a\0\n': 'x' } }, [422, 'validation_failed', 'input_unknown']],
    [
      { key: 'n1', inputs: Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`n${n}`, ''])) },
      [422, 'validation_failed', 'input_unknown'],
    ],
    [{ key: 'n1', inputs: { constructor: 'x' } }, [422, 'validation_failed', 'input_unknown']],
    [{ key: 'n1', inputs: { CITY: 1 } }, [422, 'validation_failed', 'input_invalid']],
    [{ key: 'n1', inputs: { CITY: 'a\nb' } }, [422, 'validation_failed', 'input_invalid']],
    [{ key: 'n1', inputs: { CITY: 'é'.repeat(2049) } }, [422, 'validation_failed', 'input_invalid']],
    [{ key: 'n1', tools: ['exec', 'git'] }, [403, 'forbidden', undefined]],
    [{ key: 'n1', template: 'nope' }, [404, 'not_found', undefined]],
    [{ key: 'n1', project_id: w.a2.project_id }, [404, 'not_found', undefined]],
    [{ key: 'n1', mode: 'file_first', background_seconds: 60 }, [422, 'validation_failed', 'not_supported_for_mode']],
    [{ key: 'n1', background_seconds: 0 }, [422, 'validation_failed', undefined]],
    [{ key: 'n1', background_seconds: 43_201 }, [422, 'validation_failed', undefined]],
    [{ key: 'n1', idle_policy: 'fixed:59' }, [422, 'validation_failed', undefined]],
    [{ key: 'n1', idle_policy: 'fixed:604801' }, [422, 'validation_failed', undefined]],
    [{ key: 'n1', idle_policy: 'sometimes' }, [422, 'validation_failed', undefined]],
    [{ key: '' }, [422, 'validation_failed', undefined]],
    [{ key: 'x'.repeat(201) }, [422, 'validation_failed', undefined]],
    [{ key: 'a\u0000b' }, [422, 'validation_failed', undefined]],
    [{ key: 'n1', agent_label: '' }, [422, 'validation_failed', undefined]],
    [{ key: 'n1', caps: { cpu_millis: 0 } }, [422, 'validation_failed', undefined]],
    [{ key: 'n1', organization_id: w.a.organization_id, purpose: 'standard' }, [422, 'validation_failed', undefined]],
  ] as const) {
    assert.deepEqual(reason(await w.open('n1', body)), expected, JSON.stringify(body))
  }
  assert.equal((await w.get('/v1/workspaces?key_prefix=n1')).body.data.length, 0)
})

test('a refused open names the denied tools', async () => {
  const { body } = await w.open('n2', { tools: ['git', 'exec', 'pty'] })
  assert.deepEqual(body.error.details, { denied_tools: ['git', 'pty'], permitted_tools: ['exec', 'files'] })
})

test('a required input is required on the first open only', async () => {
  const settings = { ...SETTINGS, inputs: { NEED: { required: true } } }
  await seeder(w.database, w.clock, w.ids).template(w.a.organization_id, 'needy', settings)
  assert.deepEqual(reason(await w.open('needy', { template: 'needy' })), [422, 'validation_failed', 'input_required'])
  const id = await w.running('needy', { template: 'needy', inputs: { NEED: 'x' } })
  assert.equal((await w.open('needy', { template: 'needy' })).body.workspace.id, id)
})

test("an organization's own template shadows the platform's, and another organization's is not found", async () => {
  await seeder(w.database, w.clock, w.ids).template(
    w.b.organization_id,
    'base',
    { ...SETTINGS, defaults: { ...SETTINGS.defaults, lifetime: 'session' } },
    false,
  )
  const { body } = await w.open('own', {}, { as: w.b.key })
  assert.deepEqual([body.workspace.lifetime, body.workspace.disk_layout], ['session', 'legacy'])
  assert.equal((await w.open('foreign', { template: 'needy' }, { as: w.b.key })).status, 404)
})

test('with layered opens turned off, a new workspace is a full copy, and existing workspaces keep their kind', async () => {
  await using copies = await world({ layered_opens: false })
  assert.equal((await copies.open('copied')).body.workspace.disk_layout, 'legacy')
  assert.equal((await w.open('shared-layers')).body.workspace.disk_layout, 'layered')
})

test("a key belongs to the organization: another project's is 404, and another organization may use it too", async () => {
  const id = await w.running('shared')
  assert.equal((await w.open('shared', {}, { as: w.a2.key })).status, 404)
  const theirs = await w.open('shared', {}, { as: w.b.key })
  assert.deepEqual([theirs.status, theirs.body.workspace.id === id], [202, false])
})

test('a person opens in a named project, and the billing role opens none', async () => {
  const seeds = seeder(w.database, w.clock, w.ids)
  const member = await seeds.person(w.a.organization_id, 'member')
  assert.equal((await w.open('human', {}, { as: member.token })).body.error.details.issues[0].path, 'project_id')
  assert.equal((await w.open('human', { project_id: w.b.project_id }, { as: member.token })).status, 404)
  assert.equal((await w.open('human', { project_id: w.a.project_id }, { as: member.token })).status, 202)
  const billing = await seeds.person(w.a.organization_id, 'billing')
  assert.equal((await w.open('human2', { project_id: w.a.project_id }, { as: billing.token })).status, 403)
})

async function waitForOperation(key: string): Promise<string> {
  const operations = w.database.superuser
    .selectFrom('operations as o')
    .innerJoin('workspaces as s', 's.id', 'o.workspace_id')
    .select('o.id')
    .where('s.key', '=', key)
  await until('the operation is there', 30_000, async () => (await operations.executeTakeFirst()) !== undefined)
  return (await operations.executeTakeFirstOrThrow()).id
}

test('a reopen names exactly the requested settings that it ignored', async () => {
  const caps = { cpu_millis: 1000 }
  const first = await w.open('ignoring', { caps, idle_policy: 'never' })
  assert.deepEqual([first.status, first.body.ignored], [202, []])
  const joined = await w.open('ignoring', { caps: { cpu_millis: 2000 } })
  assert.deepEqual([joined.status, joined.body.ignored], [202, ['caps']])
  await w.cell.succeed(first.body.operation.id)
  const asked = async (body: object) => {
    const { status, body: answer } = await w.open('ignoring', body)
    return [status, answer.ignored]
  }
  assert.deepEqual(await asked({}), [200, []])
  assert.deepEqual(await asked({ caps, idle_policy: 'never' }), [200, []])
  assert.deepEqual(await asked({ caps: {}, idle_policy: 'adaptive', template: 'none' }), [200, ['template', 'caps', 'idle_policy']])
  assert.deepEqual(await asked({ idle_policy: 'adaptive', inputs: { CITY: 'Rome' } }), [200, ['idle_policy']])
  assert.deepEqual(await asked({ background_seconds: 60 }), [200, ['background_seconds']])
  const { body } = await w.get(`/v1/workspaces/${first.body.workspace.id}`)
  assert.deepEqual([body.template.slug, body.caps, body.idle.policy], ['base', caps, 'never'])
})

test('a repeat of the open that made a workspace lists nothing as ignored, whatever happened since', async () => {
  const keyed = { headers: { 'idempotency-key': 'made-it' } }
  const first = await w.open('made-it', { idle_policy: 'never' }, keyed)
  const changed = await w.call('PUT', `/v1/workspaces/${first.body.workspace.id}/idle-policy`, { body: { idle_policy: null } })
  assert.equal(changed.status, 200)
  assert.deepEqual((await w.open('made-it', { idle_policy: 'never' }, keyed)).body.ignored, [])
})

test("caps above the template's or plan's limits are cut, and the answer names them", async () => {
  const large = { caps: { memory_mib: 999_999 } }
  const opened = await w.open('large', large)
  const { ceilings } = opened.body.workspace
  assert.deepEqual([opened.status, opened.body.ignored, ceilings.memory_mib], [202, ['caps'], SETTINGS.ceiling.memory_mib])
  assert.deepEqual((await w.open('large', large)).body.ignored, ['caps'])
  assert.deepEqual((await w.open('largest', { caps: SETTINGS.ceiling })).body.ignored, [])
})

test('template@version pins a new workspace, and a reopen reports another version', async () => {
  const template_id = await seeder(w.database, w.clock, w.ids).template(w.a.organization_id, 'pinned', SETTINGS)
  const now = w.clock.now()
  const versions = [
    { version: 2, published_at: now },
    { version: 3, published_at: now },
    { version: 4, published_at: null },
    { version: 5, published_at: now, archived_at: now },
  ]
  const common = { template_id, layered: true, layers: ['0'.repeat(64)], settings: JSON.stringify(SETTINGS), created_at: now }
  await w.database.superuser
    .insertInto('template_versions')
    .values(versions.map((version) => ({ archived_at: null, ...common, ...version, id: w.ids.next() })))
    .execute()
  const opened = await w.open('pin', { template: 'pinned@1' })
  assert.deepEqual([opened.status, opened.body.workspace.template], [202, { slug: 'pinned', version: 1 }])
  const ignored = async (template: string) => (await w.open('pin', { template })).body.ignored
  assert.deepEqual([await ignored('pinned@1'), await ignored('pinned'), await ignored('pinned@2')], [[], [], ['template']])
  assert.equal((await w.open('latest', { template: 'pinned' })).body.workspace.template.version, 3)
  const refused = async (template: string) => {
    const { status, body } = await w.open('unpinned', { template })
    return [status, body.error.message, body.error.details?.reason, body.error.details?.latest_version]
  }
  for (const version of [4, 5, 999_999_999])
    assert.deepEqual(await refused(`pinned@${version}`), [
      404,
      `There is no published version ${version} of pinned: the latest is 3`,
      'version_not_found',
      3,
    ])
  assert.deepEqual(await refused('unknown@1'), [404, 'There is no such template: unknown@1', undefined, undefined])
})
