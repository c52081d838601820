import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { createWorld } from '../../../tests/engine/world.ts'
import { periodOf } from '../../core/money/usage/period.ts'
import type { MachineStats } from '../host/hostd.ts'
import { judgeAllowances } from './allowances.ts'
import { addSamples } from './store.ts'

const log = pino({ level: 'silent' })

function counters(workspace_id: string, cpu_usec: number): MachineStats {
  return { workspace_id, epoch: 1, fence: 900, cpu_usec, memory_bytes: 0, disk_bytes: 0, received_bytes: 0, sent_bytes: 0 }
}

async function judged() {
  const world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  const { organization_id, cell_id } = await world.workspace(workspace_id)
  const now = world.clock.now()
  const judge = async (at = now) => {
    const clock = { now: () => at, monotonic_ms: () => 0 }
    await judgeAllowances({ cell_id: cell_id ?? '', db: process.db, clock, ids: world.ids, log })
    const row = await world.db
      .selectFrom('organizations')
      .select('allowance_exhausted')
      .where('id', '=', organization_id)
      .executeTakeFirstOrThrow()
    return row.allowance_exhausted
  }
  const use = (cpu_hours: number) => addSamples(world.db, [counters(workspace_id, cpu_hours * 3600e6)], now, 30_000)
  const grant = async (hours: number, at = 0, expires_at: Date | null = null) => {
    const id = world.ids.next()
    const created_at = new Date(now.getTime() - 3600_000 + at)
    const row = {
      id,
      organization_id,
      allowance: 'cpu_hours',
      granted_meter_units: hours * 3600,
      created_at,
      expires_at,
      revoked_at: null,
    } as const
    await world.db.insertInto('usage_grants').values(row).execute()
    return id
  }
  const draws = async () => {
    const rows = await world.db.selectFrom('usage_grant_draws').select(['grant_id', 'meter_units']).orderBy('grant_id').execute()
    return rows.map(({ grant_id, meter_units }) => [grant_id, meter_units])
  }
  return { world, now, organization_id, judge, use, grant, draws }
}

test('credits are drawn beyond the plan, oldest first and once across cells, and starts are refused when they are used up', async () => {
  const { world, judge, use, grant, draws, now } = await judged()
  await using _ = world
  await world.db.updateTable('plans').set({ cpu_hours: 1 }).execute()
  const [first, second] = [await grant(2, 0), await grant(1, 1)]
  await use(1)
  assert.deepEqual([await judge(), await draws()], [null, []])
  await use(2.5)
  assert.deepEqual([await Promise.all([judge(), judge(), judge()]), await draws()], [[null, null, null], [[first, 5400]]])
  await use(4)
  const all = [
    [first, 7200],
    [second, 3600],
  ]
  assert.deepEqual([await judge(), await draws()], ['allowance_used', all])
  assert.equal(await judge(periodOf(now).ends_at), null)
  assert.deepEqual(await draws(), all)
  await grant(1, 2)
  assert.deepEqual([await judge(), (await draws()).length], [null, 2])
})

test('each threshold is recorded once per period, even when usage jumps over several; unlimited allowances have none', async () => {
  const { world, judge, use, now, organization_id } = await judged()
  await using _ = world
  await world.db.updateTable('plans').set({ cpu_hours: 10 }).execute()
  const noted = async () => {
    const rows = await world.db.selectFrom('spend_alerts').selectAll().orderBy('id').execute()
    return rows.map(({ subject, threshold_percent }) => `${subject} ${threshold_percent}`)
  }
  await use(4.9)
  await judge()
  assert.deepEqual(await noted(), [])
  await use(5)
  await judge()
  await judge()
  assert.deepEqual(await noted(), ['cpu_hours 50'])
  await world.db.updateTable('plans').set({ currency: 'EUR', price_minor: 1000, cpu_hour_minor: 100 }).execute()
  const policy = { organization_id, version: 1, overage_enabled: true, spend_cap_minor: 1000, enabled_in: now, changed_at: now }
  await world.db.insertInto('spend_policies').values(policy).execute()
  await use(18)
  await Promise.all([judge(), judge()])
  assert.deepEqual((await noted()).slice(1).sort(), ['cpu_hours 100', 'cpu_hours 80', 'spend_cap 50', 'spend_cap 80'])
  await world.db.insertInto('spend_alert_settings').values({ organization_id, thresholds_percent: [], changed_at: now }).execute()
  await use(20)
  assert.equal(await judge(), 'spend_cap_reached')
  assert.equal((await noted()).length, 5)
})
