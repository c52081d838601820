import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { seeder, world, type Tenant, type World } from './support.ts'

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
  await w.cell.fail(next.body.operation.id) // a failed one does not count
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

test('a plan that refuses starts and an allowance that is used up are 402, and what runs is not touched', async () => {
  for (const reason of ['no_plan', 'limits_missing', 'payment_past_due', 'unpaid', 'operator_hold']) {
    const { key: as } = await tenantOf(reason, { refuses_starts: reason })
    const { status, body } = await w.open('x', {}, { as })
    assert.deepEqual([status, body.error.code, body.error.details.reason], [402, 'entitlement_required', reason])
    assert.deepEqual((await w.get('/v1/workspaces', { as })).body.data, [])
  }
  const { key: as, organization_id } = await tenantOf('allowance', {})
  const running = await w.open('runs', {}, { as })
  await w.cell.succeed(running.body.operation.id)
  for (const reason of ['allowance_used', 'overage_paused', 'spend_cap_reached']) {
    await w.database.superuser.updateTable('organizations').set({ allowance_exhausted: reason }).where('id', '=', organization_id).execute()
    const { status, body } = await w.open('new', {}, { as })
    assert.deepEqual([status, body.error.code, body.error.details.reason], [402, 'allowance_exhausted', reason])
    assert.equal((await w.post(`/v1/workspaces/${running.body.workspace.id}/fork`, { key: 'fork' }, { as })).status, 402)
    assert.equal((await w.open('runs', {}, { as })).status, 200)
  }
})
