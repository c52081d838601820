import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { sql } from 'kysely'
import { capturedState } from '../../../tests/engine/draft-states.ts'
import { createWorld, type Process, type World } from '../../../tests/engine/world.ts'
import { assertNothingIsLeft } from '../../../tests/engine/invariants.ts'
import { armFailpoint, FAILPOINTS, FailpointError, type FailpointName } from '../../lib/failpoints.ts'

/**
 * Other tests cover the failpoints of hibernate and wake (service/cell/machines/hibernate-failpoints.test.ts), trees
 * (service/cell/filetree/trees/trees.test.ts), start-ups (startup.test.ts), executions and warm machines
 * (tests/gateway/executions-killed.test.ts), builds (tests/api/template-builds.test.ts), collected layers
 * (tests/api/template-layers.test.ts), and volumes on real machines (tests/acceptance/volume-failpoints.test.ts).
 */
const POINTS = (Object.keys(FAILPOINTS) as FailpointName[]).filter(
  (name) =>
    FAILPOINTS[name].owner === 'cell' &&
    !/^(hibernate|wake|tree|startup|execution|template_build|layer_collect|warm)\.|^volume_/.test(name),
)

/** `zombie`: the process stalls until another process has taken over and reached the same point. */
const MODES = ['throw', 'kill -9', 'zombie'] as const

interface Case {
  world: World
  source: string
  operation_id: string
  target: string
  deleted?: string
}

const BEGIN: Record<string, (world: World) => Promise<Case>> = {
  async open(world) {
    const { workspace_id, operation_id } = await world.open()
    return { world, source: workspace_id, target: workspace_id, operation_id }
  },
  suspend: (world) => onRunning(world, (id) => world.operate(id, 'suspend')),
  delete: (world) => onRunning(world, (id) => world.operate(id, 'delete')),
  resume: (world) =>
    onRunning(world, async (id) => {
      await world.ended(await world.operate(id, 'suspend'))
      return world.operate(id, 'resume')
    }),
  snapshot: (world) => onRunning(world, (id) => world.operate(id, 'snapshot', { input: { label: 'kept' } })),
  reset: (world) => onRunning(world, (id) => world.operate(id, 'reset')),
  restore: (world) =>
    onRunning(world, async (id) => {
      const { result } = await world.ended(await world.operate(id, 'snapshot'))
      const guest = world.host.guest(id)
      guest.memory.set('canary', 'changed since')
      guest.files.set('/f', 'changed since')
      return world.operate(id, 'restore', { input: { checkpoint_id: result?.['checkpoint_id'] } })
    }),
  async draft_state(world) {
    // A template has one draft at a time, and the previous mode left one.
    await world.db.updateTable('template_drafts').set({ discarded_at: world.clock.now() }).where('discarded_at', 'is', null).execute()
    const draft = await onRunning(world, (id) => world.operate(id, 'layer_snapshot'))
    await world.ended(draft.operation_id)
    world.host.guest(draft.source).files.set('/f', 'changed since')
    const draft_state_id = await capturedState(world, draft.source, draft.operation_id)
    const { workspace_id, operation_id } = await world.open({ draft_state_id })
    return { ...draft, target: workspace_id, operation_id }
  },
  async adopt(world) {
    const begun = await onRunning(world, async () => '')
    const fork = await world.fork(begun.source)
    await world.ended(fork.operation_id)
    const guest = world.host.guest(fork.workspace_id)
    guest.memory.set('canary', 'of the fork')
    guest.files.set('/f', 'of the fork')
    const input = { fork_workspace_id: fork.workspace_id, delete_fork: true }
    const operation_id = await world.operate(begun.source, 'adopt', { source: fork.workspace_id, input })
    return { ...begun, operation_id, deleted: fork.workspace_id }
  },
  async fork(world) {
    const begun = await onRunning(world, async () => '')
    const { workspace_id, operation_id } = await world.fork(begun.source)
    return { ...begun, target: workspace_id, operation_id }
  },
}

async function onRunning(world: World, next: (workspace_id: string) => Promise<string>): Promise<Case> {
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  const guest = world.host.guest(workspace_id)
  guest.memory.set('canary', 'in memory')
  guest.files.set('/f', 'on disk')
  return { world, source: workspace_id, target: workspace_id, operation_id: await next(workspace_id) }
}

for (const point of POINTS) {
  // The modes share a world. The zombie is its last process.
  describe(`the operation ends, nothing is lost and nothing is left, where it fails at ${point}`, () => {
    let world: World
    let process: Process
    before(async () => {
      world = await createWorld()
      process = await world.startProcess()
    })
    after(() => world[Symbol.asyncDispose]())
    for (const mode of MODES) test(mode, async () => void (process = await failAt(point, mode, world, process)))
  })
}

async function failAt(point: FailpointName, mode: (typeof MODES)[number], world: World, first: Process): Promise<Process> {
  let process = first
  const hit = Promise.withResolvers<void>()
  const goOn = Promise.withResolvers<void>()
  const successor = { hit: Promise.withResolvers<void>(), goOn: Promise.withResolvers<void>() }
  let hits = 0
  using _ = armFailpoint(point, (name) => {
    hits += 1
    if (hits === 2 && mode === 'zombie') {
      successor.hit.resolve()
      return successor.goOn.promise
    }
    if (hits > 1) return
    hit.resolve()
    if (mode === 'throw') throw new FailpointError(name)
    return goOn.promise // a killed process never continues
  })
  const kind = point.slice(0, point.indexOf('.'))
  const begun = await BEGIN[kind]?.(world)
  assert.ok(begun)
  await hit.promise
  if (mode === 'kill -9') {
    await process.kill()
    process = await world.startProcess()
  }
  if (mode === 'zombie') {
    const zombie = process.engine.runner()
    process = await world.startProcess({ wait: false })
    await takeLock(world)
    await process.engine.ready
    await successor.hit.promise
    goOn.resolve()
    await zombie?.idle()
    successor.goOn.resolve()
  }
  const operation = await world.ended(begun.operation_id)
  assert.equal(operation.state, 'succeeded')
  await EXPECT[kind]?.(begun)
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
  await assertEverythingWorks(begun, kind)
  return process
}

/** Simulates a server that considers the connection of a stalled process dead. */
async function takeLock({ db, until }: World): Promise<void> {
  const locks = () => db.selectFrom(sql<{ pid: number; granted: boolean }>`pg_locks`.as('l')).select(['l.pid', 'l.granted'])
  const ours = sql<boolean>`locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`
  await until(async () => (await locks().where(ours).where('l.granted', '=', false).execute()).length > 0)
  for (const { pid } of await locks().where(ours).where('l.granted', '=', true).execute())
    await sql`select pg_terminate_backend(${pid})`.execute(db)
}

const EXPECT: Record<string, (begun: Case) => Promise<void>> = {
  async open({ world, target }) {
    const row = await world.workspace(target)
    assert.deepEqual([row.observed_state, row.ownership_epoch], ['running', 1])
  },
  async suspend({ world, target }) {
    const row = await world.workspace(target)
    assert.deepEqual([row.observed_state, row.ownership_epoch, row.grant_memory_mib], ['suspended', 2, null])
  },
  async resume({ world, target }) {
    const row = await world.workspace(target)
    assert.deepEqual([row.observed_state, row.ownership_epoch], ['running', 3])
    assertSameGuest(world, target)
  },
  async fork({ world, source, target }) {
    const rows = [await world.workspace(source), await world.workspace(target)]
    assert.deepEqual(
      rows.map((row) => [row.observed_state, row.ownership_epoch]),
      [
        ['running', 1],
        ['running', 1],
      ],
    )
    assertSameGuest(world, source)
    assertSameGuest(world, target)
  },
  async draft_state({ world, source, target }) {
    const files = (id: string) => world.host.guest(id).files.get('/f')
    assert.deepEqual([files(source), files(target)], ['changed since', 'on disk'])
    world.host.guest(target).files.set('/f', 'of the instance')
    await world.ended(await world.operate(target, 'reset'))
    assert.deepEqual([files(source), files(target)], ['changed since', 'on disk'])
    const instance = await world.db
      .selectFrom('workspaces as w')
      .innerJoin('template_draft_states as s', 's.id', 'w.draft_state_id')
      .select(['w.state_layers', 's.layers'])
      .where('w.id', '=', target)
      .executeTakeFirstOrThrow()
    assert.deepEqual(instance.state_layers, instance.layers)
  },
  async snapshot({ world, target, operation_id }) {
    const row = await world.workspace(target)
    assert.deepEqual([row.observed_state, row.ownership_epoch], ['running', 1])
    assertSameGuest(world, target)
    const { result } = await world.operation(operation_id)
    const kept = await world.db.selectFrom('checkpoints').select(['id', 'kind', 'label']).where('workspace_id', '=', target).execute()
    assert.deepEqual(kept, [{ id: result?.['checkpoint_id'], kind: 'snapshot', label: 'kept' }])
  },
  async reset({ world, target, operation_id }) {
    const row = await world.workspace(target)
    assert.deepEqual([row.observed_state, row.ownership_epoch], ['running', 2])
    const guest = world.host.guest(target)
    assert.deepEqual([guest.memory.get('canary'), guest.files.get('/f')], [undefined, undefined])
    await assertBringsBack(world, target, operation_id, 'on disk')
  },
  async restore({ world, target, operation_id }) {
    const row = await world.workspace(target)
    assert.deepEqual([row.observed_state, row.ownership_epoch], ['running', 2])
    assertSameGuest(world, target)
    await assertBringsBack(world, target, operation_id, 'changed since')
  },
  async adopt({ world, target, operation_id, deleted = '' }) {
    const row = await world.workspace(target)
    assert.deepEqual([row.observed_state, row.ownership_epoch], ['running', 2])
    const guest = world.host.guest(target)
    assert.deepEqual([guest.memory.get('canary'), guest.files.get('/f')], ['of the fork', 'of the fork'])
    await world.until(async () => (await world.workspace(deleted)).observed_state === 'deleted')
    assert.equal((await world.workspace(deleted)).ended_reason, 'adopted')
    await assertBringsBack(world, target, operation_id, 'on disk')
    assertSameGuest(world, target)
  },
  async delete({ world, target }) {
    assert.equal((await world.workspace(target)).observed_state, 'deleted')
  },
}

function assertSameGuest(world: World, workspace_id: string): void {
  const guest = world.host.guest(workspace_id)
  assert.deepEqual([guest.memory.get('canary'), guest.files.get('/f')], ['in memory', 'on disk'])
}

async function assertBringsBack(world: World, workspace_id: string, operation_id: string, file: string): Promise<void> {
  const { result } = await world.operation(operation_id)
  const checkpoint_id = result?.['recovery_checkpoint_id']
  const { state } = await world.ended(await world.operate(workspace_id, 'restore', { input: { checkpoint_id } }))
  assert.equal(state, 'succeeded')
  assert.equal(world.host.guest(workspace_id).files.get('/f'), file)
}

async function assertEverythingWorks({ world, source, target }: Case, kind: string): Promise<void> {
  const [suspend, resume] = kind === 'suspend' ? ['resume', 'suspend'] : ['suspend', 'resume']
  for (const workspace_id of kind === 'delete' ? [] : new Set([source, target])) {
    for (const next of [suspend, resume, 'delete']) {
      assert.equal((await world.ended(await world.operate(workspace_id, next))).state, 'succeeded')
    }
  }
  await assertNothingIsLeft(world)
}
