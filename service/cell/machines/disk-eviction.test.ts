import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld, entryOf } from '../../../tests/engine/world.ts'
import type { IdleFacts } from '../../core/workspaces/idle.ts'
import { givesDisk } from './disk-eviction.ts'

const IDLE = { running: 0, busy_until: null, last_ended_at: null, commands: [] }
const ON_DEMAND = { ask_activity: async () => IDLE, park_after: { freeze_after_seconds: 0, hibernate_after_seconds: 3600 } }

test('opens that wait for disk alone succeed without idle time: the longest unused workspaces are suspended', async () => {
  await using world = await createWorld({ capacity: { cpu_millis: 8000, memory_mib: 512 * 40, disk_gib: 4 * 15 } })
  const process = await world.startProcess(ON_DEMAND)
  const frozen = async (idle_policy?: string) => {
    const { workspace_id, operation_id } = await world.open(idle_policy === undefined ? {} : { idle_policy })
    assert.equal((await world.ended(operation_id)).state, 'succeeded')
    const entry = await world.until(async () => {
      const found = await entryOf(process, workspace_id)
      return found.machine !== null && found
    })
    await process.parking.freeze(entry)
    world.clock.advance(3)
    return workspace_id
  }
  const kept = [await frozen('never'), await frozen('fixed:3600'), await frozen()]
  const idle: string[] = []
  for (let count = 0; count < 9; count += 1) idle.push(await frozen())
  using _ = process.table.holdAwake(kept[2] ?? '', 'call')
  await process.parking.hibernate(await entryOf(process, idle[0] ?? ''))
  world.clock.advance(10)
  // The clock does not move, so no idle policy can suspend a workspace.
  const opens = await Promise.all(Array.from({ length: 10 }, () => world.open()))
  for (const { operation_id } of opens) assert.equal((await world.ended(operation_id)).state, 'succeeded')
  const states = async (ids: string[]) => Promise.all(ids.map(async (id) => (await world.workspace(id)).desired_state))
  assert.deepEqual(await states([...kept, ...idle.slice(7)]), Array(5).fill('running'))
  assert.deepEqual(await states(idle.slice(0, 7)), Array(7).fill('suspended'))
  const suspends = await world.db.selectFrom('operations').select('input').where('kind', '=', 'suspend').execute()
  assert.deepEqual(suspends, Array(7).fill({ input: { reason: 'disk_wanted' } }))
})

const NOW = new Date('2026-01-01T12:00:00Z')
const ago = (seconds: number) => new Date(NOW.getTime() - seconds * 1000)

test('a workspace with the adaptive policy yields its disk after ten seconds without use', () => {
  const idle: IdleFacts = {
    lifetime: 'persistent',
    idle_policy: null,
    template_defaults: {},
    active_at: ago(10),
    tool_call_at: null,
    busy_until: null,
    keepalive_until: null,
    suspend_requested_at: null,
    suspend_after_seconds: null,
    suspend_not_before: null,
    idle_gaps: null,
    idle_failures: 0,
    idle_retry_at: null,
  }
  const gives = (more: Partial<IdleFacts>) => givesDisk({ ...idle, ...more }, NOW)
  assert.deepEqual([gives({}), gives({ idle_policy: 'adaptive', template_defaults: { idle_policy: 'never' } })], [true, true])
  const keeps: Partial<IdleFacts>[] = [
    { active_at: ago(9.9) },
    { busy_until: ago(9) },
    { keepalive_until: ago(-1) },
    { idle_retry_at: ago(-1) },
    { idle_policy: 'never' },
    { idle_policy: 'fixed:60' },
    { template_defaults: { idle_policy: 'fixed:60' } },
    { lifetime: 'session' },
  ]
  for (const one of keeps) assert.equal(gives(one), false, JSON.stringify(one))
})
