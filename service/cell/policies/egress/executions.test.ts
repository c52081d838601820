import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import pino from 'pino'
import { AT_ONCE_MS, createWorld, type Process, type World } from '../../../../tests/engine/world.ts'
import { until } from '../../../../tests/support/processes.ts'
import { drawFence } from '../../machines/settle-store.ts'
import { enforcing } from './enforcing.ts'

const log = pino({ level: 'silent' })

async function policy(world: World, workspace_id: string, mode: 'deny_all' | 'allow_all', level: 'workspace' | 'project' = 'workspace') {
  const { organization_id, project_id } = await world.workspace(workspace_id)
  const scope = { id: world.ids.next(), organization_id, project_id, workspace_id: level === 'project' ? null : workspace_id, version: 1 }
  const by = { created_by_type: 'user' as const, created_by_id: world.ids.next(), created_at: world.clock.now() }
  await world.db
    .insertInto('egress_versions')
    .values({ ...scope, mode, rules: '[]', cidrs: [], ...by })
    .execute()
}

async function running(world: World, process: Process) {
  const { workspace_id } = await world.open()
  const { organization_id, project_id, cell_id } = await world.workspace(workspace_id)
  const fence = await drawFence(world.db)
  const grants = { grant_cpu_millis: 1, grant_memory_mib: 1, grant_disk_gib: 1 }
  const cell = cell_id ?? (await world.db.selectFrom('cells').select('id').executeTakeFirstOrThrow()).id
  await world.db
    .insertInto('machines')
    .values({ kind: 'execution', id: workspace_id, workspace_id, organization_id, project_id, cell_id: cell, epoch: 1, fence, ...grants })
    .execute()
  const subject = { kind: 'execution', id: workspace_id } as const
  const host = enforcing(world.host, { db: process.db, clock: world.clock, log, book: process.egress })
  const start = () =>
    host.start({
      subject,
      operation_id: world.ids.next(),
      step: 'start',
      epoch: 1,
      fence,
      resources: { cpu_millis: 1000, memory_mib: 256, disk_gib: 1 },
      hostname: 'box',
      layers: ['a'.repeat(64)],
    })
  return { workspace_id, subject, start }
}

test('a policy change of a workspace or its project reaches the machine of a running command', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  for (const level of ['workspace', 'project'] as const) {
    const { workspace_id, subject, start } = await running(world, process)
    await start()
    assert.equal(world.host.egressOf(subject), undefined)
    await policy(world, workspace_id, 'deny_all', level)
    await until(`that of the ${level} is in force`, AT_ONCE_MS, () => world.host.egressOf(subject)?.mode === 'deny_all')
  }
})

test("a policy change during the start of a command's machine reaches it, too", async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id, subject, start } = await running(world, process)
  using _ = world.host.intercept('start', 'before', ({ subject: { kind } }) =>
    kind === 'execution' ? policy(world, workspace_id, 'deny_all') : undefined,
  )
  await start()
  await until('it is in force', AT_ONCE_MS, () => world.host.egressOf(subject)?.mode === 'deny_all')
})

test('the next comparison applies a change whose notification was lost', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id, subject, start } = await running(world, process)
  await start()
  await sql`alter table egress_versions disable trigger egress_changed`.execute(world.db)
  await policy(world, workspace_id, 'deny_all')
  process.room.requestReconcile()
  await until('it is in force', AT_ONCE_MS, () => world.host.egressOf(subject)?.mode === 'deny_all')
})
