import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { HostFailure } from '../../service/cell/host/hostd.ts'
import { seeder, world, type Tenant, type World } from './support.ts'
import { worldWithCell } from './with-cell.ts'
import { admin as adminOn } from '../support/admin.ts'

let w: World
before(async () => {
  w = await world()
})
after(() => w[Symbol.asyncDispose]())

async function tenantOf(slug: string, limits: Parameters<ReturnType<typeof seeder>['plan']>[1]): Promise<Tenant> {
  const seeds = seeder(w.database, w.clock, w.ids)
  return seeds.tenant(slug, await seeds.plan(slug, limits))
}

test('races of opens, forks and resumes never exceed concurrent_workspaces', async () => {
  const { key: as } = await tenantOf('three', { concurrent_workspaces: 3 })
  const second = await w.second()
  const opens = await Promise.all(Array.from({ length: 12 }, (_, n) => w.open(`c${n}`, {}, { as, base: n % 2 ? second : w.base })))
  const admitted = opens.filter(({ status }) => status === 202)
  const refused = opens.filter(({ status }) => status !== 202)
  assert.deepEqual([admitted.length, refused.length], [3, 9])
  for (const { body } of refused) {
    assert.deepEqual(
      [body.error.code, body.error.retryable, body.error.details],
      ['quota_exceeded', false, { limit: 'concurrent_workspaces', limit_value: 3, current: 3 }],
    )
  }
  const ids = admitted.map(({ body }) => body.workspace.id)
  for (const { body } of admitted) await w.cell.succeed(body.operation.id)
  assert.equal((await w.post(`/v1/workspaces/${ids[0]}/fork`, { key: 'f' }, { as })).status, 403)
  await w.cell.succeed((await w.post(`/v1/workspaces/${ids[0]}/suspend`, undefined, { as })).body.id)
  const next = await w.open('c-next', {}, { as })
  assert.equal(next.status, 202)
  assert.equal((await w.post(`/v1/workspaces/${ids[0]}/resume`, {}, { as })).status, 403)
  await w.cell.fail(next.body.operation.id) // a failed operation does not count
  assert.equal((await w.post(`/v1/workspaces/${ids[0]}/resume`, {}, { as })).status, 202)
  assert.equal((await w.open('c-next', {}, { as })).status, 403)
  await w.call('DELETE', `/v1/workspaces/${ids[1]}`, { as })
  assert.equal((await w.open('c-next', {}, { as })).status, 202)
})

test("a plan's sizes lower the ceilings", async () => {
  const { key: as } = await tenantOf('small', { memory_mib: 256 })
  const { body } = await w.open('small', { caps: { cpu_millis: 9999 } }, { as })
  assert.deepEqual(body.workspace.ceilings, { cpu_millis: 4000, memory_mib: 256, disk_gib: 10 })
})

test('30 concurrent opens through two processes under a plan of 10 start exactly 10 and refuse 20', async () => {
  const { key: as } = await tenantOf('ten', { concurrent_workspaces: 10 })
  const second = await w.second()
  const opens = await Promise.all(Array.from({ length: 30 }, (_, n) => w.open(`p${n}`, {}, { as, base: n % 2 ? second : w.base })))
  assert.deepEqual(
    [202, 403].map((wanted) => opens.filter(({ status }) => status === wanted).length),
    [10, 20],
  )
  const { body } = await w.get('/v1/workspaces', { as })
  assert.equal(body.data.length, 10)
  const keys = await w.database.superuser.selectFrom('workspace_keys').select('key').where('key', 'like', 'p%').execute()
  assert.deepEqual(keys.map(({ key }) => key).sort(), body.data.map(({ key }: { key: string }) => key).sort())
})

test('admin commands cause every 402 and 403, and undo it', async () => {
  const { key: as, organization_id } = await tenantOf('standing', {})
  await w.cell.succeed((await w.open('runs-on', {}, { as })).body.operation.id)
  const answer = async () => {
    const { status, body } = await w.open('standing', {}, { as })
    return [status, body.error?.code, body.error?.details]
  }
  const refused = (reason: string, details: object) => [402, 'entitlement_required', { reason, plan: 'standing', ...details }]
  for (const reason of ['no_plan', 'unpaid', 'operator_hold'] as const) {
    await admin('organization', 'starts', 'standing', reason)
    assert.deepEqual(await answer(), refused(reason, {}))
  }
  await admin('organization', 'starts', 'standing', 'payment_past_due', '--grace-until', '2031-02-03T04:05:06Z')
  assert.deepEqual(await answer(), refused('payment_past_due', { grace_until: '2031-02-03T04:05:06.000Z' }))
  assert.equal((await w.open('runs-on', {}, { as })).status, 200)
  await admin('organization', 'starts', 'standing', 'none')
  const limits = ['--cpu-millis', 'missing', '--concurrent-workspaces', 'missing', '--disk-gib', 'none']
  await admin('plan', 'set', 'standing', '--memory-mib', 'missing', ...limits)
  assert.deepEqual(await answer(), refused('limits_missing', { missing: ['concurrent_workspaces', 'cpu_millis', 'memory_mib'] }))
  await admin('plan', 'set', 'standing', '--memory-mib', '4096', '--cpu-millis', 'none')
  assert.deepEqual(await answer(), refused('limits_missing', { missing: ['concurrent_workspaces'] }))
  await admin('plan', 'set', 'standing', '--concurrent-workspaces', '0')
  assert.deepEqual(await answer(), [403, 'quota_exceeded', { limit: 'concurrent_workspaces', limit_value: 0, current: 1 }])
  await admin('plan', 'set', 'standing', '--concurrent-workspaces', 'none')
  const used = ['--used', 'ram_gib_hours=7200/3600', '--used', 'cpu_hours=1800/1800', '--resets-at', '2031-01-01T00:00:00Z']
  const cap = ['--spend-cap', '5000', '--charges', '5001', '--currency', 'EUR']
  await admin('organization', 'allowance', 'standing', 'spend_cap_reached', ...used, ...cap)
  const ram = { allowance: 'ram_gib_hours', meter: 'memory_gib_seconds', unit: 'gib_hours', used: 2, included: 1 }
  const cpu = { allowance: 'cpu_hours', meter: 'cpu_seconds', unit: 'hours', used: 0.5, included: 0.5 }
  const first = { ...ram, used_meter_units: 7200, included_meter_units: 3600 }
  assert.deepEqual(await answer(), [
    402,
    'allowance_exhausted',
    {
      reason: 'spend_cap_reached',
      ...first,
      exhausted: [first, { ...cpu, used_meter_units: 1800, included_meter_units: 1800 }],
      resets_at: '2031-01-01T00:00:00.000Z',
      plan: 'standing',
      spend_cap: { cap_minor: 5000, effective_cap_minor: 5000, charges_minor: 5001, currency: 'EUR' },
    },
  ])
  assert.deepEqual((await w.get('/v1/workspaces?key_prefix=standing', { as })).body.data, [])
  await admin('organization', 'allowance', 'standing', 'none')
  assert.equal((await answer())[0], 202)
  for (const bad of [
    ['allowance', 'standing', 'allowance_used', '--used', 'cpu_hours=1/2'],
    ['allowance', 'standing', 'allowance_used', '--used', 'disk=2/1'],
    ['allowance', 'standing', 'allowance_used', '--spend-cap', '1'],
    ['allowance', 'standing', 'gone'],
    ['starts', 'standing', 'unpaid', '--grace-until', '2031-02-03'],
    ['starts', 'standing', 'payment_past_due', '--grace-until', 'soon'],
  ])
    await assert.rejects(admin('organization', ...bad), { code: 2 })
  const { refuses_starts, allowance_exhausted } = await w.database.superuser
    .selectFrom('organizations')
    .selectAll()
    .where('id', '=', organization_id)
    .executeTakeFirstOrThrow()
  assert.deepEqual([refuses_starts, allowance_exhausted], [null, null])
})

test('a used-up allowance suspends running workspaces and sessions, and no start succeeds until the allowance is back', async () => {
  await using c = await worldWithCell({ capacity: { cpu_millis: 100_000, memory_mib: 100_000, disk_gib: 10_000 } })
  const [busy, session, other] = [
    await c.ready('busy', { idle_policy: 'never' }),
    await c.ready('session', { lifetime: 'session' }),
    await c.ready('other', {}, { as: c.b.key }),
  ]
  const organizations = c.database.superuser.updateTable('organizations').where('id', '=', c.a.organization_id)
  await organizations.set({ allowance_exhausted: 'allowance_used' }).execute()
  using _ = c.table.holdAwake(busy, 'stream') // an open stream does not protect the workspace from the suspend
  assert.equal((await c.open('busy')).status, 200) // the workspace may be opened while it still runs
  await c.look()
  const end = async (id: string) => {
    const [operation] = await c.operations(id)
    return [operation.kind, operation.input, (await c.ended(operation.id)).state]
  }
  for (const id of [busy, session]) {
    assert.deepEqual(await end(id), ['suspend', { reason: 'allowance_exhausted' }, 'succeeded'])
    const { body } = await c.get(`/v1/workspaces/${id}`)
    assert.deepEqual([body.observed_state, body.desired_state, body.ended_reason], ['suspended', 'suspended', null])
    const { status, body: refused } = await c.post(`/v1/workspaces/${id}/resume`)
    assert.deepEqual([status, refused.error.code, refused.error.retryable], [402, 'allowance_exhausted', false])
  }
  assert.equal((await c.get(`/v1/workspaces/${other}`, { as: c.b.key })).body.ready, true)
  await organizations.set({ allowance_exhausted: null }).execute()
  assert.equal(await c.ready('session', { lifetime: 'session' }), session)
  // The cell repeats a failed suspend after a minute, not at once.
  await organizations.set({ allowance_exhausted: 'allowance_used' }).execute()
  {
    using _broken = c.host.intercept('checkpoint', 'before', () => {
      throw new HostFailure('no_space', 'the pool is full', { retryable: false })
    })
    await c.look()
    assert.deepEqual(await end(session), ['suspend', { reason: 'allowance_exhausted' }, 'failed'])
  }
  const count = async () => (await c.operations(session, '?kind=suspend')).length
  await c.look()
  assert.equal(await count(), 2)
  c.advance(61)
  await c.look()
  assert.deepEqual([await count(), await end(session)], [3, ['suspend', { reason: 'allowance_exhausted' }, 'succeeded']])
})

const admin = (...args: string[]) => adminOn(w.database.url, ...args)

test('a plan that refuses starts and a used-up allowance are 402, and running workspaces go on', async () => {
  for (const reason of ['no_plan', 'limits_missing', 'payment_past_due', 'unpaid', 'operator_hold'] as const) {
    const { key: as } = await tenantOf(
      reason,
      reason === 'limits_missing' ? { missing_limits: ['memory_mib'] } : { refuses_starts: reason },
    )
    const { status, body } = await w.open('x', {}, { as })
    assert.deepEqual([status, body.error.code, body.error.details.reason], [402, 'entitlement_required', reason])
    assert.deepEqual((await w.get('/v1/workspaces', { as })).body.data, [])
  }
  const { key: as, organization_id } = await tenantOf('allowance', {})
  const running = await w.open('runs', {}, { as })
  await w.cell.succeed(running.body.operation.id)
  for (const reason of ['allowance_used', 'overage_paused', 'spend_cap_reached'] as const) {
    await w.database.superuser.updateTable('organizations').set({ allowance_exhausted: reason }).where('id', '=', organization_id).execute()
    const { status, body } = await w.open('new', {}, { as })
    assert.deepEqual([status, body.error.code, body.error.details.reason], [402, 'allowance_exhausted', reason])
    assert.equal((await w.post(`/v1/workspaces/${running.body.workspace.id}/fork`, { key: 'fork' }, { as })).status, 402)
    assert.equal((await w.open('runs', {}, { as })).status, 200)
  }
})
