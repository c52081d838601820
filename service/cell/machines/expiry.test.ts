import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import pino from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import { createWorld } from '../../../tests/engine/world.ts'
import { expire } from './expiry.ts'

test('a tombstone goes after 30 days with its operations, and its key stays used', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const source = await world.open()
  await world.ended(source.operation_id)
  const fork = await world.fork(source.workspace_id)
  await world.ended(fork.operation_id)
  await world.ended(await world.operate(source.workspace_id, 'delete'))
  const context = { db: world.database.cell, clock: world.clock, log: pino({ level: 'silent' }) }
  world.clock.advance(30 * 24 * 3600 - 60)
  await expire(context)
  assert.equal((await world.workspace(source.workspace_id)).observed_state, 'deleted')
  world.clock.advance(120)
  await expire(context)
  const left = await world.db.selectFrom('workspaces').select('id').execute()
  assert.deepEqual(left, [{ id: fork.workspace_id }])
  assert.equal((await world.operation(fork.operation_id)).source_workspace_id, null)
  assert.deepEqual(await world.db.selectFrom('operations').select('id').where('workspace_id', '=', source.workspace_id).execute(), [])
  const keys = await world.db.selectFrom('workspace_keys').select('reusable').where('workspace_id', '=', source.workspace_id).execute()
  assert.deepEqual(keys, [{ reusable: false }])
})

test('an idempotency entry goes after its day, however many there are', async () => {
  await using world = await createWorld()
  const context = { db: world.database.cell, clock: world.clock, log: pino({ level: 'silent' }) }
  const now = world.clock.now().getTime()
  const age_ms = LIMITS.idempotency_seconds * 1000
  const entries = (count: number, at_ms: number) =>
    sql`insert into idempotency_entries (principal, route, key, fingerprint, outcome, created_at)
      select 'p', 'r', ${String(at_ms)} || n, '', '{}', ${new Date(at_ms)} from generate_series(1, ${count}::int) n`.execute(world.db)
  await entries(12_000, now - age_ms - 60_000)
  await entries(3, now - age_ms + 60_000)
  await expire(context)
  const left = await world.db.selectFrom('idempotency_entries').select('created_at').execute()
  assert.deepEqual(
    left.map(({ created_at }) => created_at.getTime() - now + age_ms),
    [60_000, 60_000, 60_000],
  )
})

test('what one tick removes is bounded, and the next goes on', async () => {
  await using world = await createWorld()
  const context = { db: world.database.cell, clock: world.clock, log: pino({ level: 'silent' }) }
  const old = new Date(world.clock.now().getTime() - 2 * LIMITS.idempotency_seconds * 1000)
  await sql`insert into idempotency_entries (principal, route, key, fingerprint, outcome, created_at)
    select 'p', 'r', n, '', '{}', ${old} from generate_series(1, 100010) n`.execute(world.db)
  const left = async () => (await sql<{ n: number }>`select count(*)::int as n from idempotency_entries`.execute(world.db)).rows[0]?.n
  await expire(context)
  assert.equal(await left(), 10)
  await expire(context)
  assert.equal(await left(), 0)
})

test('a recovery checkpoint goes after its time, row before files, and stays while its workspace would resume from it', async () => {
  await using world = await createWorld()
  const { engine } = await world.startProcess()
  const context = { db: world.database.cell, clock: world.clock, log: pino({ level: 'silent' }) }
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  for (const kind of ['snapshot', 'suspend'] as const) await world.ended(await world.operate(workspace_id, kind))
  const { checkpoint_id } = await world.workspace(workspace_id)
  const expires_at = new Date(world.clock.now().getTime() + LIMITS.recovery_checkpoint_days * 24 * 3600_000)
  await world.db.updateTable('checkpoints').set({ kind: 'recovery', expires_at }).execute()
  const names = async () =>
    (await world.host.inventory()).workspaces.flatMap(({ checkpoints }) => checkpoints.map((one) => one.checkpoint_id))
  const rows = async () => (await world.db.selectFrom('checkpoints').select('id').execute()).map(({ id }) => id)
  world.clock.advance(LIMITS.recovery_checkpoint_days * 24 * 3600 - 60)
  await expire(context)
  assert.equal((await rows()).length, 2)
  world.clock.advance(120)
  await expire(context)
  assert.deepEqual(await rows(), [checkpoint_id])
  assert.equal((await names()).length, 2)
  await engine.watch()?.sweep()
  assert.deepEqual(await names(), [checkpoint_id])
})
