import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import pino from 'pino'
import { LIMITS } from '../../contract/limits.ts'
import { OBSERVED_STATES } from '../../contract/states/machine.ts'
import { HostFailure } from '../../service/cell/host/hostd.ts'
import { expire } from '../../service/cell/reconcile/expiry.ts'
import { until } from '../support/processes.ts'
import { seeder, SETTINGS, type Answer, type Tenant } from './support.ts'
import { worldWithCell, type CellWorld } from './with-cell.ts'

let w: CellWorld
let seeds: ReturnType<typeof seeder>
before(async () => {
  w = await worldWithCell({ capacity: { cpu_millis: 1_000_000, memory_mib: 1_000_000, disk_gib: 100_000 } })
  seeds = seeder(w.database, w.clock, w.ids)
})
after(() => w[Symbol.asyncDispose]())

const path = (id: string, verb: string) => `/v1/workspaces/${id}/${verb}`
const reason = ({ status, body }: Answer) => [status, body.error?.code, body.error?.details?.reason]

async function tenant(slug: string): Promise<Tenant> {
  return seeds.tenant(slug, await seeds.plan(slug))
}

test('every filter of the list works as specified, on both routes, newest first', async () => {
  const { key: as, organization_id, project_id } = await tenant('lists')
  const ready = (key: string, body = {}) => w.ready(key, body, { as })
  const [running, suspended, failed, session, deleted, draft] = [
    await ready('a-running'),
    await ready('a-suspended'),
    await ready('b-failed'),
    await ready('b-session', { lifetime: 'session' }),
    await ready('b-deleted'),
    await ready('c-draft'),
  ]
  await w.ended((await w.post(path(suspended, 'suspend'), undefined, { as })).body.id, { as })
  await w.ended((await w.call('DELETE', `/v1/workspaces/${deleted}`, { as })).body.id, { as })
  const db = w.database.superuser
  await db.updateTable('workspaces').set({ observed_state: 'failed' }).where('id', '=', failed).execute()
  await db.updateTable('workspaces').set({ purpose: 'template_draft' }).where('id', '=', draft).execute()
  const own = await seeds.person(organization_id, 'billing')
  const cases: [query: string, ids: string[]][] = [
    ['', [failed, suspended, running]],
    ['state=running', [running]],
    ['state=suspended', [suspended]],
    ['state=failed', [failed]],
    ['state=deleted', [deleted]],
    ['state=stopping', []],
    ['desired_state=running', [failed, running]],
    ['desired_state=suspended', [suspended]],
    ['desired_state=deleted', [deleted]],
    ['include_deleted=true', [deleted, failed, suspended, running]],
    ['include_deleted=false', [failed, suspended, running]],
    ['key_prefix=a-', [suspended, running]],
    ['key_prefix=A-', []],
    ['key_prefix=', [failed, suspended, running]],
    ['lifetime=session', [session]],
    ['lifetime=any', [session, failed, suspended, running]],
    ['purpose=template_draft', [draft]],
    ['purpose=template_test', []],
    ['purpose=any', [draft, failed, suspended, running]],
    ['lifetime=any&purpose=any&include_deleted=true', [draft, deleted, session, failed, suspended, running]],
    [`project_id=${project_id}&state=running`, [running]],
    [`project_id=${w.a.project_id}`, []],
    ['limit=2', [failed, suspended]],
  ]
  for (const [query, ids] of cases) {
    for (const route of [`/v1/workspaces?${query}`, `/v1/organizations/${organization_id}/workspaces?${query}`]) {
      for (const who of [as, own.token]) {
        const { status, body } = await w.get(route, { as: who })
        assert.deepEqual([status, body.data?.map(({ id }: { id: string }) => id)], [200, ids], route)
      }
    }
  }
  const of_organization = (id: string) => w.get(`/v1/workspaces?organization_id=${id}&state=running`, { as })
  assert.deepEqual(
    [(await of_organization(organization_id)).body.data.length, (await of_organization(w.b.organization_id)).body.data],
    [1, []],
  )
  for (const [query, field] of [
    ['state=gone', 'state'],
    ['desired_state=failed', 'desired_state'],
    ['include_deleted=perhaps', 'include_deleted'],
    ['lifetime=ever', 'lifetime'],
    ['purpose=none', 'purpose'],
    ['project_id=1', 'project_id'],
    ['organization_id=1', 'organization_id'],
    ['limit=201', 'limit'],
    ['limit=0', 'limit'],
  ] as const) {
    const { status, body } = await w.get(`/v1/workspaces?${query}`, { as })
    assert.deepEqual([status, body.error.code, body.error.details.issues[0].path], [422, 'validation_failed', field])
  }
})

test('the view has every field, and grants are the resources of a running machine', async () => {
  const id = await w.ready('view', { caps: { cpu_millis: 500, memory_mib: 99_999 }, idle_policy: 'fixed:60' })
  const { body } = await w.get(`/v1/workspaces/${id}`)
  const { created_at, updated_at, idle, ...fields } = body
  assert.deepEqual(fields, {
    id,
    organization_id: w.a.organization_id,
    project_id: w.a.project_id,
    key: 'view',
    observed_state: 'running',
    desired_state: 'running',
    ready: true,
    template: { slug: 'base', version: 1 },
    active_operation: null,
    pending_reason: null,
    grants: { cpu_millis: 500, memory_mib: 8192, disk_gib: 10 },
    ceilings: { cpu_millis: 500, memory_mib: 8192, disk_gib: 10 },
    caps: { cpu_millis: 500, memory_mib: 99_999 },
    lifetime: 'persistent',
    purpose: 'standard',
    disk_layout: 'layered',
    origin: null,
    idle_timeout_seconds: 60,
    ended_reason: null,
    startup: null,
    mode: 'processful',
    tree_revision: null,
    ownership_epoch: 1,
    cell_endpoint: 'http://one.cell.test',
    deleted_at: null,
  })
  assert.deepEqual([idle.policy, idle.timeout_seconds, idle.basis, idle.suspend_request], ['fixed:60', 60, 'fixed', null])
  assert.ok(Date.parse(idle.next_eligible_at) >= Date.parse(created_at) + 60_000 && updated_at >= created_at)
  await w.ended((await w.post(path(id, 'suspend'))).body.id)
  const asleep = (await w.get(`/v1/workspaces/${id}`)).body
  assert.deepEqual(
    [asleep.observed_state, asleep.ready, asleep.grants, asleep.ownership_epoch, asleep.idle.next_eligible_at],
    ['suspended', false, null, 2, null],
  )
})

test('each state refuses its calls with its reason', async () => {
  const id = await w.ready('matrix')
  const refusals: Record<string, (state: string) => string | null> = {
    suspend: () => 'not_running',
    resume: () => 'not_suspended',
    fork: () => 'not_forkable',
    'suspend-when-idle': () => 'not_running',
    'tool-tokens': () => 'not_running',
    'idle-policy': () => null,
  }
  const bodies: Record<string, object> = {
    fork: { key: 'never' },
    'suspend-when-idle': { after_seconds: 30 },
    'idle-policy': { idle_policy: null },
  }
  const db = w.database.superuser
  for (const observed_state of OBSERVED_STATES.filter((state) => !['running', 'suspended', 'deleting', 'deleted'].includes(state))) {
    await db.updateTable('workspaces').set({ observed_state }).where('id', '=', id).execute()
    for (const [verb, refusal] of Object.entries(refusals)) {
      const answer = await w.call(verb === 'idle-policy' ? 'PUT' : 'POST', path(id, verb), { body: bodies[verb] ?? {} })
      const expected = refusal(observed_state)
      assert.deepEqual(
        reason(answer),
        expected === null ? [200, undefined, undefined] : [409, 'conflict', expected],
        `${verb} ${observed_state}`,
      )
    }
    assert.equal((await w.call('DELETE', path(id, 'suspend-when-idle'))).status, 200)
    assert.equal((await w.get(`/v1/workspaces/${id}`)).body.observed_state, observed_state)
  }
  await db.updateTable('workspaces').set({ mode: 'file_first', observed_state: 'running' }).where('id', '=', id).execute()
  for (const verb of ['suspend', 'resume', 'fork', 'suspend-when-idle', 'idle-policy']) {
    const answer = await w.call(verb === 'idle-policy' ? 'PUT' : 'POST', path(id, verb), { body: bodies[verb] ?? {} })
    assert.deepEqual(reason(answer), [409, 'conflict', 'not_supported_for_mode'], verb)
  }
})

test('an open joins a start and the fork that made the workspace, and gets operation_in_progress in any other operation', async () => {
  const id = await w.ready('in-hand')
  const go = Promise.withResolvers<void>()
  const checkpoint = Promise.withResolvers<void>()
  using _ = w.host.intercept('checkpoint', 'before', async () => {
    checkpoint.resolve()
    await go.promise
  })
  const { body: suspend } = await w.post(path(id, 'suspend'))
  await checkpoint.promise
  for (const opened of [await w.open('in-hand'), await w.open('in-hand', { inputs: { CITY: 'Oslo' } })]) {
    assert.deepEqual(reason(opened), [409, 'conflict', 'operation_in_progress'])
    assert.deepEqual(
      [opened.body.error.operation_id, opened.body.error.retryable, opened.body.error.details.active_operation_kind],
      [suspend.id, true, 'suspend'],
    )
  }
  assert.deepEqual((await w.get(path(id, 'inputs'))).body, { COLOUR: 'blue' }) // the whole body is refused
  go.resolve()
  await w.ended(suspend.id)
  const { body: forked } = await w.post(path(id, 'fork'), { key: 'in-hand-copy', caps: { cpu_millis: 99_999 } })
  assert.deepEqual(forked.workspace.ceilings, { cpu_millis: 4000, memory_mib: 1024, disk_gib: 10 })
  const joined = await w.open('in-hand-copy', {}, { headers: { prefer: 'wait=20' } })
  assert.deepEqual([joined.status, joined.body.operation.id, joined.body.workspace.ready], [200, forked.operation.id, true])
})

test('input errors name every input: unknown before invalid before required', async () => {
  await seeds.template(null, 'inputs', { ...SETTINGS, inputs: { A: { required: true }, B: { required: true }, C: { default: 'c' } } })
  const open = (inputs?: object) => w.open('inputs', { template: 'inputs', ...(inputs === undefined ? {} : { inputs }) })
  for (const [inputs, expected, names] of [
    [{ X: '1', Y: '2', A: '\n' }, 'input_unknown', ['X', 'Y']],
    [{ A: 'a\u0000', B: 7, C: 'x'.repeat(LIMITS.input.bytes_max + 1) }, 'input_invalid', ['A', 'B', 'C']],
    [{ A: '\ud800' }, 'input_invalid', ['A']],
    [{ C: 'x' }, 'input_required', ['A', 'B']],
    [undefined, 'input_required', ['A', 'B']],
  ] as const) {
    const answer = await open(inputs)
    assert.deepEqual([...reason(answer), answer.body.error.details.names], [422, 'validation_failed', expected, names])
  }
  const id = await w.ready('inputs', { template: 'inputs', inputs: { A: 'a', B: 'é'.repeat(LIMITS.input.bytes_max / 2) } })
  const shown = async () => (await w.get(path(id, 'inputs'))).body
  assert.deepEqual(await shown(), { A: 'a', B: 'é'.repeat(LIMITS.input.bytes_max / 2), C: 'c' })
  await w.table.load(id) // the first tool call loads the entry in the same way
  assert.deepEqual(reason(await open({ A: 'new' })), [422, 'validation_failed', 'input_required'])
  assert.equal((await open({ A: 'new', B: '', C: 'x' })).status, 200)
  assert.deepEqual(await shown(), { A: 'new', B: '', C: 'x' })
  assert.equal((await open()).status, 200)
  assert.deepEqual(await shown(), { A: 'new', B: '', C: 'x' })
  await until('the gateway has heard of the inputs', 30_000, () => w.table.get(id)?.inputs['A'] === 'new')
})

test('an archived template opens no new key, and existing keys still open', async () => {
  const template_id = await seeds.template(null, 'old', SETTINGS)
  await w.ready('old', { template: 'old' })
  await w.database.superuser.updateTable('templates').set({ archived_at: w.clock.now() }).where('id', '=', template_id).execute()
  assert.deepEqual(reason(await w.open('old-2', { template: 'old' })), [409, 'conflict', 'template_archived'])
  assert.equal((await w.open('old', { template: 'old' })).status, 200)
})

test('only sessions can be closed; a deleted other workspace is workspace_deleted, and a repeated close answers the delete', async () => {
  const [persistent, session] = [await w.ready('close-persistent'), await w.ready('close-session', { lifetime: 'session' })]
  assert.deepEqual(reason(await w.post(path(persistent, 'close'))), [409, 'conflict', 'not_session'])
  await w.ended((await w.call('DELETE', `/v1/workspaces/${persistent}`)).body.id)
  assert.deepEqual(reason(await w.post(path(persistent, 'close'))), [409, 'conflict', 'workspace_deleted'])
  const closed = await w.post(path(session, 'close'))
  assert.deepEqual([closed.status, closed.body.kind, closed.body.input], [202, 'delete', { reason: 'session_closed' }])
  await w.ended(closed.body.id)
  assert.equal((await w.post(path(session, 'close'))).body.id, closed.body.id)
  assert.equal((await w.call('DELETE', `/v1/workspaces/${session}`)).body.id, closed.body.id)
  assert.equal((await w.get(`/v1/workspaces/${session}`)).body.ended_reason, 'closed')
})

async function lostFork(source: string, key: string): Promise<string> {
  using _ = w.host.intercept('checkpoint', 'before', () => {
    throw new HostFailure('no_space', 'the pool is full', { retryable: false })
  })
  const { body } = await w.post(path(source, 'fork'), { key })
  assert.equal((await w.ended(body.operation.id)).state, 'failed')
  return body.workspace.id
}

test('a fork that captured nothing is deleted with its reason; DELETE answers a delete operation, and its key is free', async () => {
  const source = await w.ready('fork-lost')
  const id = await lostFork(source, 'fork-lost-copy')
  const { body } = await w.get(`/v1/workspaces/${id}`)
  assert.deepEqual([body.observed_state, body.desired_state, body.ended_reason], ['deleted', 'deleted', 'fork_failed'])
  const deleted = await w.call('DELETE', `/v1/workspaces/${id}`)
  assert.deepEqual(
    [deleted.status, deleted.body.kind, deleted.body.state, deleted.body.workspace_id, deleted.body.result],
    [202, 'delete', 'succeeded', id, {}],
  )
  assert.equal((await w.call('DELETE', `/v1/workspaces/${id}`)).body.id, deleted.body.id)
  const again = await w.post(path(source, 'fork'), { key: 'fork-lost-copy' })
  assert.equal((await w.ended(again.body.operation.id)).state, 'succeeded')
})

test('a tombstone expires after 30 days; its key stays used, except for ended sessions and forks that captured nothing', async () => {
  const [id, session, source] = [
    await w.ready('tomb'),
    await w.ready('tomb-session', { lifetime: 'session' }),
    await w.ready('tomb-source'),
  ]
  const lost = await lostFork(source, 'tomb-fork')
  const operation = (await w.call('DELETE', `/v1/workspaces/${id}`)).body
  for (const end of [operation, (await w.post(path(session, 'close'))).body]) await w.ended(end.id)
  const later = (days: number) =>
    expire({
      db: w.database.cell,
      clock: { ...w.clock, now: () => new Date(w.clock.now().getTime() + days * 86_400_000) },
      log: pino({ level: 'silent' }),
    })
  await later(LIMITS.workspace.tombstone_days - 1)
  assert.ok((await w.get(`/v1/workspaces/${id}`)).body.deleted_at)
  assert.equal((await w.get(`/v1/operations/${operation.id}`)).status, 200)
  assert.deepEqual(
    (await w.operations(id)).map(({ kind }) => kind),
    ['delete', 'open'],
  )
  assert.deepEqual(reason(await w.open('tomb')), [409, 'conflict', 'workspace_deleted'])
  await later(LIMITS.workspace.tombstone_days + 1)
  for (const gone of [id, session, lost]) assert.equal((await w.get(`/v1/workspaces/${gone}`)).status, 404)
  assert.equal((await w.get(`/v1/operations/${operation.id}`)).status, 404)
  assert.deepEqual(reason(await w.open('tomb')), [409, 'conflict', 'workspace_deleted'])
  assert.equal((await w.open('tomb', {}, { as: w.a2.key })).status, 404)
  assert.deepEqual(reason(await w.post(path(source, 'fork'), { key: 'tomb' })), [409, 'conflict', 'key_in_use'])
  assert.deepEqual(reason(await w.post(path(source, 'fork'), { key: 'tomb-session' })), [409, 'conflict', 'key_in_use'])
  assert.notEqual(await w.ready('tomb-session'), session)
  assert.equal((await w.post(path(source, 'fork'), { key: 'tomb-fork' })).status, 202)
})

test("an open of a failed workspace's key starts it again from the same disk", async () => {
  const id = await w.ready('reopened')
  w.host.kill(id)
  await until('it has failed', 30_000, async () => (await w.get(`/v1/workspaces/${id}`)).body.observed_state === 'failed')
  const { body } = await w.get(`/v1/workspaces/${id}`)
  assert.deepEqual([body.desired_state, body.ready, body.grants], ['running', false, null])
  const again = await w.open('reopened', {}, { headers: { prefer: 'wait=20' } })
  assert.deepEqual(
    [again.status, again.body.operation.kind, again.body.workspace.id, again.body.workspace.ownership_epoch],
    [200, 'open', id, again.body.tool_token.ownership_epoch],
  )
})
