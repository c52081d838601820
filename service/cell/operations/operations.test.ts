import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { assertNothingIsLeft } from '../../../tests/engine/invariants.ts'
import { AT_ONCE_MS, createWorld } from '../../../tests/engine/world.ts'
import { until } from '../../../tests/support/processes.ts'
import { armFailpoint } from '../../lib/failpoints.ts'

test('an open makes a running machine at epoch 1 and lets its packets leave', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  const operation = await world.ended(operation_id)
  assert.deepEqual([operation.state, operation.result], ['succeeded', { ownership_epoch: 1 }])
  const row = await world.workspace(workspace_id)
  assert.deepEqual([row.observed_state, row.ownership_epoch, row.grant_memory_mib], ['running', 1, 512])
  const [machine] = (await world.host.inventory()).machines
  assert.deepEqual([machine?.epoch, machine?.connected, machine?.disk], [1, true, row.disk])
})

test('a workspace that changed between the pass and the claim is claimed in its current state', async () => {
  await using world = await createWorld()
  let moved = 0n
  using _ = armFailpoint('open.O3', async () => {
    if (moved > 0n) return
    const changed = await world.db
      .updateTable('workspaces')
      .set({ ownership_epoch: 5 })
      .where('observed_state', '=', 'creating')
      .executeTakeFirst()
    moved = changed.numUpdatedRows
  })
  await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  const operation = await world.ended(operation_id)
  assert.deepEqual([moved, operation.state, operation.result], [1n, 'succeeded', { ownership_epoch: 6 }])
  assert.equal((await world.workspace(workspace_id)).ownership_epoch, 6)
})

const waiting = sql`select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
for (const [point, kind] of [
  ['open.O3', 'open'],
  ['open.O8', 'open'],
  ['resume.R2', 'resume'],
  ['resume.R6', 'resume'],
] as const) {
  test(`what another writer of the row commits while ${point} goes on is kept, and ${kind} succeeds`, async () => {
    await using world = await createWorld()
    let other: Promise<void> | undefined
    using _ = armFailpoint(point, async () => {
      if (other !== undefined) return
      const { promise: locked, resolve: isLocked } = Promise.withResolvers<void>()
      other = world.db.transaction().execute(async (tx) => {
        await tx.updateTable('workspaces').set({ idle_policy: 'never' }).execute()
        isLocked()
        await until('the operation waits for the row', AT_ONCE_MS, async () => (await waiting.execute(world.db)).rows.length > 0)
      })
      await locked
    })
    await world.startProcess()
    const { workspace_id, operation_id } = await world.open()
    await world.ended(operation_id)
    if (kind === 'resume') {
      await world.ended(await world.operate(workspace_id, 'suspend'))
      const resumed = await world.ended(await world.operate(workspace_id, 'resume'))
      assert.equal(resumed.state, 'succeeded')
    }
    await other
    const row = await world.workspace(workspace_id)
    assert.deepEqual([row.observed_state, row.ownership_epoch, row.idle_policy], ['running', kind === 'open' ? 1 : 3, 'never'])
  })
}

test('a suspended workspace resumes with memory, files and counter from the instant of the pause', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  world.host.guest(workspace_id).memory.set('canary', 'in memory')
  world.host.guest(workspace_id).files.set('/f', 'on disk')
  const suspended = await world.ended(await world.operate(workspace_id, 'suspend'))
  const asleep = await world.workspace(workspace_id)
  assert.deepEqual(
    [suspended.state, suspended.result, asleep.observed_state, asleep.ownership_epoch, asleep.grant_memory_mib, asleep.disk],
    ['succeeded', { checkpoint_id: asleep.checkpoint_id }, 'suspended', 2, null, null],
  )
  assert.deepEqual((await world.host.inventory()).machines, [])
  const resumed = await world.ended(await world.operate(workspace_id, 'resume'))
  const awake = await world.workspace(workspace_id)
  assert.deepEqual([resumed.state, awake.observed_state, awake.ownership_epoch], ['succeeded', 'running', 3])
  const guest = world.host.guest(workspace_id)
  assert.deepEqual([guest.memory.get('canary'), guest.files.get('/f')], ['in memory', 'on disk'])
})

test('a fork of a running workspace has its memory and disk, and the source runs on', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const source = await world.open()
  await world.ended(source.operation_id)
  world.host.guest(source.workspace_id).memory.set('canary', 'in memory')
  const target = await world.fork(source.workspace_id)
  const operation = await world.ended(target.operation_id)
  assert.equal(operation.state, 'succeeded')
  assert.deepEqual(
    [(await world.workspace(target.workspace_id)).observed_state, (await world.workspace(target.workspace_id)).ownership_epoch],
    ['running', 1],
  )
  assert.equal((await world.workspace(source.workspace_id)).ownership_epoch, 1)
  world.host.guest(target.workspace_id).memory.set('canary', 'of the fork')
  assert.equal(world.host.guest(source.workspace_id).memory.get('canary'), 'in memory')
})

test('a fork of a suspended workspace leaves it suspended', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const source = await world.open()
  await world.ended(source.operation_id)
  world.host.guest(source.workspace_id).memory.set('canary', 'in memory')
  await world.ended(await world.operate(source.workspace_id, 'suspend'))
  const target = await world.fork(source.workspace_id)
  assert.equal((await world.ended(target.operation_id)).state, 'succeeded')
  assert.equal((await world.workspace(source.workspace_id)).observed_state, 'suspended')
  assert.equal(world.host.guest(target.workspace_id).memory.get('canary'), 'in memory')
  assert.equal((await world.ended(await world.operate(source.workspace_id, 'resume'))).state, 'succeeded')
})

test('a fork smaller than the captured memory is refused and its key is free', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const source = await world.open()
  await world.ended(source.operation_id)
  const target = await world.fork(source.workspace_id, { resources: { memory_mib: 256 } })
  const operation = await world.ended(target.operation_id)
  assert.deepEqual([operation.state, operation.error?.code], ['failed', 'invalid_resources'])
  const row = await world.workspace(target.workspace_id)
  assert.deepEqual([row.observed_state, row.ended_reason, row.deleted_at !== null], ['deleted', 'fork_failed', true])
  const key = await world.db
    .selectFrom('workspace_keys')
    .select('reusable')
    .where('workspace_id', '=', target.workspace_id)
    .executeTakeFirstOrThrow()
  assert.equal(key.reusable, true)
  assert.equal((await world.workspace(source.workspace_id)).observed_state, 'running')
})

test('a delete leaves no machine and no file, and frees the key of a session only', async () => {
  await using world = await createWorld()
  await world.startProcess()
  for (const lifetime of ['persistent', 'session'] as const) {
    const { workspace_id, operation_id } = await world.open({ lifetime })
    await world.ended(operation_id)
    const operation = await world.ended(await world.operate(workspace_id, 'delete'))
    assert.equal(operation.state, 'succeeded')
    assert.equal((await world.workspace(workspace_id)).observed_state, 'deleted')
    const key = await world.db
      .selectFrom('workspace_keys')
      .select('reusable')
      .where('workspace_id', '=', workspace_id)
      .executeTakeFirstOrThrow()
    assert.equal(key.reusable, lifetime === 'session')
  }
  const { machines, files } = await world.host.inventory()
  assert.deepEqual([machines, files], [[], []])
})

test('a delete cancels what is under way and wins', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const started = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  using _ = world.host.intercept('start', 'before', async () => {
    started.resolve()
    await go.promise
  })
  const { workspace_id, operation_id } = await world.open()
  await started.promise
  const deletion = await world.operate(workspace_id, 'delete')
  go.resolve()
  assert.equal((await world.ended(deletion)).state, 'succeeded')
  assert.equal((await world.ended(operation_id)).state, 'canceled')
  const { machines, files } = await world.host.inventory()
  assert.deepEqual([machines, files], [[], []])
})

test('a checkpoint that cannot be written leaves the guest running', async () => {
  await using world = await createWorld()
  const { table } = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  const { HostFailure } = await import('../host/hostd.ts')
  using _ = world.host.intercept('checkpoint', 'before', () => {
    throw new HostFailure('no_space', 'full', { retryable: true })
  })
  const operation = await world.ended(await world.operate(workspace_id, 'suspend'))
  assert.deepEqual([operation.state, operation.error?.code, operation.error?.retryable], ['failed', 'checkpoint_failed', true])
  const row = await world.workspace(workspace_id)
  assert.deepEqual([row.observed_state, row.desired_state, row.ownership_epoch], ['running', 'running', 1])
  const entry = await table.fresh(workspace_id)
  assert.deepEqual([entry?.hold, entry?.gone.aborted, entry?.machine?.epoch], [null, false, 1])
})

test('a damaged checkpoint fails the resume and the workspace stays suspended', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  await world.ended(await world.operate(workspace_id, 'suspend'))
  const { checkpoint_id } = await world.workspace(workspace_id)
  world.host.corrupt(checkpoint_id ?? '')
  const operation = await world.ended(await world.operate(workspace_id, 'resume'))
  assert.deepEqual([operation.state, operation.error?.code, operation.error?.retryable], ['failed', 'checkpoint_corrupt', false])
  const row = await world.workspace(workspace_id)
  assert.deepEqual(
    [row.observed_state, row.desired_state, row.ownership_epoch, row.checkpoint_id],
    ['suspended', 'suspended', 2, checkpoint_id],
  )
})

test('a first open that fails leaves the workspace failed, and a second open starts it', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const { HostFailure } = await import('../host/hostd.ts')
  const broken = world.host.intercept('start', 'before', () => {
    throw new HostFailure('start_failed', 'no', { retryable: true })
  })
  const { workspace_id, operation_id } = await world.open()
  assert.deepEqual(
    [(await world.ended(operation_id)).error?.code, (await world.workspace(workspace_id)).observed_state],
    ['dependency_failed', 'failed'],
  )
  broken[Symbol.dispose]()
  assert.equal((await world.ended(await world.operate(workspace_id, 'open'))).state, 'succeeded')
})

test('a killed machine is failed at once, and an open continues from its current disk', async () => {
  await using world = await createWorld()
  const { table } = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  // Waits until the process has the machine in its table: otherwise the process would not record the machine's death.
  await world.until(async () => (await table.fresh(workspace_id))?.machine ?? undefined)
  const entry = table.get(workspace_id)
  world.host.guest(workspace_id).files.set('/kept', 'yes')
  const began_ms = performance.now()
  world.host.kill(workspace_id)
  await world.until(async () => (await world.workspace(workspace_id)).observed_state === 'failed')
  assert.ok(performance.now() - began_ms < AT_ONCE_MS)
  assert.deepEqual([entry?.gone.aborted, entry?.gone.reason], [true, 'died'])
  assert.equal((await world.workspace(workspace_id)).grant_memory_mib, null)
  assert.equal((await world.ended(await world.operate(workspace_id, 'open'))).state, 'succeeded')
  assert.equal(world.host.guest(workspace_id).files.get('/kept'), 'yes')
  assert.equal((await world.workspace(workspace_id)).ownership_epoch, 2)
})

test('a fork that fails after its capture is failed, and an open restores the capture', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const source = await world.open()
  await world.ended(source.operation_id)
  world.host.guest(source.workspace_id).memory.set('canary', 'in memory')
  const { HostFailure } = await import('../host/hostd.ts')
  const broken = world.host.intercept('restore', 'before', () => {
    throw new HostFailure('restore_failed', 'no', { retryable: true })
  })
  const target = await world.fork(source.workspace_id)
  assert.equal((await world.ended(target.operation_id)).state, 'failed')
  assert.equal((await world.workspace(target.workspace_id)).observed_state, 'failed')
  broken[Symbol.dispose]()
  assert.equal((await world.ended(await world.operate(target.workspace_id, 'open'))).state, 'succeeded')
  assert.equal(world.host.guest(target.workspace_id).memory.get('canary'), 'in memory')
})

test('operations wait while the machine host is silent, and end when it is back', async () => {
  await using world = await createWorld()
  await world.startProcess()
  world.host.setReachable(false)
  const { operation_id } = await world.open()
  await world.until(async () => (await world.operation(operation_id)).state === 'running')
  world.host.setReachable(true)
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
})

test('a source that is deleted while it is copied ends the fork, and its key is free', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const source = await world.open()
  await world.ended(source.operation_id)
  const capturing = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  using _ = world.host.intercept('checkpoint', 'before', async () => {
    capturing.resolve()
    await go.promise
  })
  const target = await world.fork(source.workspace_id)
  await capturing.promise
  const deletion = await world.operate(source.workspace_id, 'delete')
  go.resolve()
  assert.equal((await world.ended(deletion)).state, 'succeeded')
  assert.equal((await world.operation(target.operation_id)).state, 'canceled')
  await world.until(async () => (await world.workspace(target.workspace_id)).observed_state === 'deleted')
  assert.equal((await world.workspace(target.workspace_id)).ended_reason, 'fork_failed')
  await world.until(async () => (await world.host.inventory()).files.every(({ checkpoints }) => checkpoints.length === 0))
})

test('a database that drops every connection in the middle loses nothing', async () => {
  await using world = await createWorld()
  const { engine } = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  world.host.guest(workspace_id).memory.set('canary', 'in memory')
  for (const kind of ['suspend', 'resume', 'suspend', 'resume']) {
    const reached = Promise.withResolvers<void>()
    const verb = kind === 'suspend' ? 'checkpoint' : 'restore'
    {
      using _ = world.host.intercept(verb, 'after', async () => {
        await sql`select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid() and usename is not null and application_name = 'berth-test'`.execute(
          world.db,
        )
        reached.resolve()
      })
      const id = await world.operate(workspace_id, kind)
      await reached.promise
      _[Symbol.dispose]()
      assert.equal((await world.ended(id)).state, 'succeeded')
    }
  }
  assert.equal(world.host.guest(workspace_id).memory.get('canary'), 'in memory')
  await world.until(async () => engine.isReady())
  await engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('an operation that lost its workspace reports the workspace’s new state', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const [dead, moved] = [await world.open(), await world.open()]
  for (const { operation_id } of [dead, moved]) await world.ended(operation_id)
  world.host.kill(dead.workspace_id)
  await world.until(async () => (await world.workspace(dead.workspace_id)).observed_state === 'failed')
  using _ = armFailpoint('suspend.S8', async () => {
    await world.db.updateTable('workspaces').set({ ownership_epoch: 7 }).where('id', '=', moved.workspace_id).execute()
  })
  const ended = await Promise.all([dead, moved].map(async ({ workspace_id }) => world.ended(await world.operate(workspace_id, 'suspend'))))
  assert.deepEqual(
    ended.map(({ error }) => [error?.code, error?.message, error?.retryable]),
    [
      ['interrupted', 'The workspace failed before the operation was done', true],
      ['interrupted', 'The workspace changed before the operation was done', true],
    ],
  )
})
