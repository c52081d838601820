import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld } from '../../../tests/engine/world.ts'
import { freshDatabase } from '../../../tests/support/postgres.ts'
import { seeder } from '../../../tests/api/support.ts'
import { decide } from '../../../contract/states/commands.ts'
import { beginOperation } from '../../core/workspaces/operations/begin.ts'
import { aboutWorkspace, insertOperation } from '../../core/workspaces/operations/store.ts'
import { serviceOrigin } from '../../core/changes/audit.ts'
import { mutate, type ChangeTx } from '../../core/changes/mutate.ts'
import type { Db } from '../../db/database.ts'
import { Failure } from '../../lib/fail.ts'
import { insertFirstOperation } from '../../core/workspaces/create-store.ts'
import { systemClock } from '../../lib/clock.ts'
import { createIds } from '../../lib/ids.ts'

const ids = createIds(systemClock)
const SMALL = { cpu_millis: 1000, memory_mib: 512, disk_gib: 5 }

test('an operation of a build that the cell does not know fails at once with a reason, and operations of workspaces go on', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const { organization_id, project_id } = await world.workspace((await world.open()).workspace_id)
  const subject = { kind: 'template_build' as const, id: world.ids.next() }
  const build = { subject, organization_id, project_id, workspace_id: null, cell_id: null, input: {}, now: world.clock.now() }
  const id = world.ids.next()
  await seeded(world.db, (tx) => insertOperation(tx, { ...build, id, kind: 'template_build' }, null))
  const beside = await world.open()
  const ended = await world.ended(id)
  assert.deepEqual([ended.state, ended.error?.code, ended.workspace_id], ['failed', 'internal_error', null])
  assert.deepEqual([ended.subject_kind, ended.subject_id], ['template_build', subject.id])
  assert.equal((await world.ended(beside.operation_id)).state, 'succeeded')
})

function seeded(db: Db, work: (tx: ChangeTx) => Promise<unknown>) {
  const now = systemClock.now()
  return mutate(db, serviceOrigin('setup', { ids, now }), 'tests.seed', work, () => null)
}

async function suspended(database: Awaited<ReturnType<typeof freshDatabase>>) {
  const seeds = seeder(database, systemClock, ids)
  const { organization_id, project_id } = await seeds.tenant('acme', await seeds.plan('unlimited'))
  const cell_id = await seeds.cell('one')
  await seeds.template(null, 'base', { env: {}, inputs: {}, defaults: SMALL, ceiling: SMALL })
  const db = database.superuser
  const { id: template_version_id } = await db.selectFrom('template_versions').select('id').executeTakeFirstOrThrow()
  const now = systemClock.now()
  const workspace = { id: ids.next(), organization_id, project_id, cell_id }
  const terms = {
    lifetime: 'persistent',
    mode: 'processful',
    purpose: 'standard',
    disk_layout: 'layered',
    observed_state: 'creating',
  } as const
  const given = {
    key: 'sleeper',
    template_version_id,
    origin: null,
    caps: {},
    ceilings: SMALL,
    inputs: {},
    startup: null,
    idle_policy: null,
    background_seconds: null,
    now,
  }
  const open = { ...aboutWorkspace(workspace), id: ids.next(), kind: 'open', cell_id, input: {}, now } as const
  await seeded(db, (tx) => insertFirstOperation(tx, { ...workspace, ...terms, ...given }, open))
  await db.deleteFrom('workspace_holds').execute()
  await db.updateTable('operations').set({ state: 'succeeded', completed_at: now }).execute()
  await db.updateTable('workspaces').set({ observed_state: 'suspended', desired_state: 'suspended' }).execute()
  return workspace
}

test('a process of the cell begins a resume under its own database role, and a second begin is refused as retryable', async () => {
  await using database = await freshDatabase()
  const row = await suspended(database)
  const decision = decide(
    { observed_state: 'suspended', deleted: false, mode: 'processful', lifetime: 'persistent', held_by: null },
    'resume',
  )
  assert.ok(decision.kind === 'operate')
  const now = systemClock.now()
  const holder = { kind: 'tool_token', id: ids.next(), name: `api_key:${ids.next()}` } as const
  const by = { actor: holder, ids, now, request_id: 'request-1', source_address: '192.0.2.7' }
  const subject = { kind: 'workspace', ...row } as const
  const resume = () =>
    mutate(
      database.cell,
      by,
      'workspaces.resume',
      (tx) => beginOperation({ ids }, tx, row, decision, { cell_id: row.cell_id, now }),
      subject,
    )
  const id = await resume()
  const operation = await database.superuser.selectFrom('operations').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  assert.deepEqual(
    [operation.kind, operation.state, operation.subject_kind, operation.subject_id],
    ['resume', 'queued', 'workspace', row.id],
  )
  assert.ok(operation.deadline_at !== null, 'a resume waits for room, and not for ever')
  const { desired_state } = await database.superuser.selectFrom('workspaces').select('desired_state').executeTakeFirstOrThrow()
  assert.equal(desired_state, 'running')
  const refused = await resume().catch((error: unknown) => error)
  assert.ok(refused instanceof Failure && refused.code === 'conflict' && refused.options.retryable === true)
  const events = await database.superuser.selectFrom('audit_events').selectAll().where('actor_kind', '=', 'tool_token').execute()
  assert.deepEqual(
    events.map(({ actor_id, actor_name, action, subject_id, request_id }) => [actor_id, actor_name, action, subject_id, request_id]),
    [[holder.id, holder.name, 'workspaces.resume', row.id, 'request-1']],
  )
})

test('an operation inserted without a target, as by the previous version, belongs to its workspace', async () => {
  await using database = await freshDatabase()
  const { id: workspace_id, organization_id, project_id } = await suspended(database)
  const now = systemClock.now()
  const id = ids.next()
  const values = {
    id,
    organization_id,
    project_id,
    workspace_id,
    kind: 'snapshot',
    state: 'queued',
    created_at: now,
    updated_at: now,
  } as const
  await database.api.insertInto('operations').values(values).execute()
  const row = await database.superuser.selectFrom('operations').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  assert.deepEqual([row.subject_kind, row.subject_id], ['workspace', workspace_id])
})
