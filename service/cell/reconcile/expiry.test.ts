import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import pino from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import { createWorld } from '../../../tests/engine/world.ts'
import { expire, forgetHistories } from './expiry.ts'

const waiting = sql`select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`

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

test('the removal of tombstones locks operations before workspaces', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  await world.ended(await world.operate(workspace_id, 'delete'))
  const context = { db: world.database.cell, clock: world.clock, log: pino({ level: 'silent' }) }
  world.clock.advance(30 * 24 * 3600 + 60)
  let expired: Promise<void> = Promise.resolve()
  await world.db.transaction().execute(async (tx) => {
    await tx.selectFrom('operations').select('id').where('id', '=', operation_id).forUpdate().execute()
    expired = expire(context)
    await world.until(async () => (await waiting.execute(world.db)).rows.length > 0)
    await tx.selectFrom('workspaces').select('id').where('id', '=', workspace_id).forUpdate().noWait().execute()
  })
  await expired
  await expire(context)
  assert.deepEqual(await world.db.selectFrom('workspaces').select('id').execute(), [])
})

test('one tick removes a bounded number of rows, and the next goes on', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  const context = { db: world.database.cell, clock: world.clock, log: pino({ level: 'silent' }) }
  const over = new Date(world.clock.now().getTime() - 60_000)
  await sql`insert into checkpoints (id, workspace_id, cell_id, operation_id, kind, epoch, engine, size_bytes, resources, created_at, expires_at)
    select gen_random_uuid(), id, cell_id, ${operation_id}::uuid, 'recovery', 1, '', 1, '{}', ${over}, ${over}
    from workspaces, generate_series(1, 4010) where id = ${workspace_id}`.execute(world.db)
  const left = async () => (await sql<{ n: number }>`select count(*)::int as n from checkpoints`.execute(world.db)).rows[0]?.n
  await expire(context)
  assert.equal(await left(), 10)
  await expire(context)
  assert.equal(await left(), 0)
})

test('a recovery checkpoint expires, row before files, and stays while its workspace would resume from it', async () => {
  await using world = await createWorld()
  const { engine } = await world.startProcess()
  const context = { db: world.database.cell, clock: world.clock, log: pino({ level: 'silent' }) }
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  for (const kind of ['snapshot', 'suspend'] as const) await world.ended(await world.operate(workspace_id, kind))
  const { checkpoint_id } = await world.workspace(workspace_id)
  const expires_at = new Date(world.clock.now().getTime() + LIMITS.workspace.recovery_checkpoint_days * 24 * 3600_000)
  await world.db.updateTable('checkpoints').set({ kind: 'recovery', expires_at }).execute()
  const names = async () => (await world.host.inventory()).files.flatMap(({ checkpoints }) => checkpoints.map((one) => one.checkpoint_id))
  const rows = async () => (await world.db.selectFrom('checkpoints').select('id').execute()).map(({ id }) => id)
  world.clock.advance(LIMITS.workspace.recovery_checkpoint_days * 24 * 3600 - 60)
  await expire(context)
  assert.equal((await rows()).length, 2)
  world.clock.advance(120)
  await expire(context)
  assert.deepEqual(await rows(), [checkpoint_id])
  assert.equal((await names()).length, 2)
  await engine.watch()?.sweep()
  assert.deepEqual(await names(), [checkpoint_id])
})

test("a checkpoint that its owner deleted has no files after a reconcile pass, and its row goes after a tombstone's time", async () => {
  await using world = await createWorld()
  const { engine } = await world.startProcess()
  const context = { db: world.database.cell, clock: world.clock, log: pino({ level: 'silent' }) }
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  for (const kind of ['snapshot', 'snapshot', 'suspend'] as const) await world.ended(await world.operate(workspace_id, kind))
  const [first, second, standing] = await world.db.selectFrom('checkpoints').select('id').orderBy('id').execute()
  const files = async () => (await world.host.inventory()).files.flatMap(({ checkpoints }) => checkpoints.map((one) => one.checkpoint_id))
  const rows = async () => (await world.db.selectFrom('checkpoints').select('id').orderBy('id').execute()).map(({ id }) => id)
  // A process that dies with the commit notifies no other process.
  await engine.close(0)
  const deleted = { deleted_at: world.clock.now() }
  await world.database.api
    .updateTable('checkpoints')
    .set(deleted)
    .where('id', '=', first?.id ?? '')
    .execute()
  assert.equal((await files()).length, 3)
  await world.startProcess()
  assert.deepEqual((await files()).sort(), [second?.id, standing?.id])
  await world.database.api
    .updateTable('checkpoints')
    .set(deleted)
    .where('id', '=', second?.id ?? '')
    .execute()
  await world.until(async () => (await files()).length === 1)
  assert.deepEqual(await files(), [standing?.id])
  world.clock.advance((LIMITS.workspace.tombstone_days * 24 - 1) * 3600)
  await expire(context)
  assert.equal((await rows()).length, 3)
  world.clock.advance(2 * 3600)
  await expire(context)
  assert.deepEqual(await rows(), [standing?.id])
})

test('old operations and agent sessions of a living workspace go, except the newest', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  const { operations_kept, agent_sessions_kept, tombstone_days } = LIMITS.workspace
  const now = world.clock.now()
  const over = new Date(now.getTime() - (tombstone_days + 1) * 24 * 3600_000)
  const young = new Date(now.getTime() - (tombstone_days - 1) * 24 * 3600_000)
  const add = (kind: string, count: number, at: Date) =>
    sql`
    insert into operations (id, organization_id, project_id, workspace_id, subject_id, kind, state, created_at, updated_at, completed_at, fence)
    select uuid_in(overlay(md5(random()::text) placing '0100000000007' from 1)::cstring), organization_id, project_id, id, id, ${kind}, 'succeeded', ${at}, ${at}, ${at}, 0
    from workspaces, generate_series(1, ${count}) where id = ${workspace_id}`.execute(world.db)
  await add('suspend', operations_kept + 1500, over)
  await add('fork', 3, over)
  await add('suspend', 2, young)
  await sql`insert into agent_sessions (id, workspace_id, principal_type, principal_id, agent_label, created_at, last_used_at)
    select gen_random_uuid(), ${workspace_id}, 'api_key', gen_random_uuid(), n::text, ${over}, ${over}
    from generate_series(1, ${agent_sessions_kept + 5}) n`.execute(world.db)
  const { cell_id } = await world.workspace(workspace_id)
  const context = { cell_id: cell_id ?? '', db: world.database.cell, clock: world.clock }
  assert.equal(await forgetHistories(context, null), null)
  const left = async (table: 'operations' | 'agent_sessions') => (await world.db.selectFrom(table).select('id').execute()).length
  assert.equal((await world.operation(operation_id)).state, 'succeeded') // the newest operation stays
  const operations = await left('operations')
  assert.ok(operations >= operations_kept && operations <= operations_kept + 5, `${operations} are left`)
  assert.equal(await left('agent_sessions'), agent_sessions_kept)
  const { rows } = await sql<{
    count: number
  }>`select count(*)::int as count from operations where kind = 'fork' or completed_at = ${young}`.execute(world.db)
  assert.equal(rows[0]?.count, 5)
})

test('the spec of an old build goes with its log, and the row of a deleted volume with its operations', async () => {
  await using world = await createWorld()
  const { workspace_id, operation_id } = await world.open()
  const over = new Date(world.clock.now().getTime() - 400 * 24 * 3600_000)
  await sql`update operations set state = 'canceled', completed_at = ${over} where id = ${operation_id}`.execute(world.db)
  await sql`insert into template_builds (id, organization_id, project_id, template_id, operation_id, kind, spec, created_at)
    select ${workspace_id}, w.organization_id, w.project_id, t.id, ${operation_id}, 'recipe', '{"files": "large"}', ${over}
    from workspaces w, templates t where w.id = ${workspace_id} limit 1`.execute(world.db)
  await sql`insert into template_build_logs (build_id, start_byte, text) values (${workspace_id}, 0, 'said')`.execute(world.db)
  const volume = (state: string, deleted_at: Date | null) =>
    sql`
    insert into volumes (id, organization_id, project_id, name, quota_gib, org_shared, state, created_at, updated_at, deleted_at)
    select gen_random_uuid(), organization_id, project_id, ${state}, 1, false, ${state}, ${over}, ${over}, ${deleted_at}
    from workspaces where id = ${workspace_id}`.execute(world.db)
  await volume('deleted', over)
  await volume('available', null)
  await expire({ db: world.database.cell, clock: world.clock, log: pino({ level: 'silent' }) })
  const build = await world.db.selectFrom('template_builds').select('spec').executeTakeFirstOrThrow()
  assert.deepEqual([build.spec, await world.db.selectFrom('template_build_logs').select('text').execute()], [{}, []])
  assert.deepEqual(await world.db.selectFrom('volumes').select('state').execute(), [{ state: 'available' }])
})
