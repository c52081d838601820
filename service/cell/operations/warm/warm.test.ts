import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { assertNothingIsLeft } from '../../../../tests/engine/invariants.ts'
import type { NewWorkspace } from '../../../../tests/engine/intentions.ts'
import { createWorld, type World } from '../../../../tests/engine/world.ts'
import { AgentFailure } from '../../host/agent-failure.ts'
import { HostFailure, type HostFailureCode } from '../../host/hostd.ts'
import { armFailpoint, type FailpointName } from '../../../lib/failpoints.ts'

const SIZE = { cpu_millis: 1000, memory_mib: 512, disk_gib: 4 }
const SETTINGS = {
  env: { GREETING: 'hello' },
  inputs: { CITY: { default: 'Bonn' } },
  defaults: SIZE,
  ceiling: SIZE,
  start: [{ name: 'migrate', argv: ['/bin/migrate'] }],
  services: [{ name: 'web', argv: ['/bin/web'], ready: { argv: ['/bin/is-ready'] } }],
  warm: true,
}

/** The service leaves a mark in the memory of its machine. */
async function warmWorld(): Promise<World> {
  const world = await createWorld()
  await world.db
    .updateTable('template_versions')
    .set({ settings: JSON.stringify(SETTINGS) })
    .execute()
  world.guests.behave = (name) => (name === 'web' ? 'runs' : { exit: 0 })
  return world
}

function open(world: World, wanted: NewWorkspace = {}) {
  return world.open({ startup: { state: 'pending' }, inputs: { CITY: 'Bonn' }, ...wanted })
}

async function opened(world: World, asked: { workspace_id: string; operation_id: string }) {
  const { state, result } = await world.ended(asked.operation_id)
  const row = await world.workspace(asked.workspace_id)
  const started = world.guests.started.filter((one) => one.workspace_id === asked.workspace_id).length
  return { state, warm: result?.['warm'] === true, startup: row.startup, started }
}
const COLD = { state: 'succeeded', warm: false, startup: { state: 'ready' }, started: 3 }
const WARM = { state: 'succeeded', warm: true, startup: { state: 'ready' }, started: 0 }

const captureOf = (world: World) => world.db.selectFrom('template_captures').selectAll().executeTakeFirst()
const ready = (world: World, but?: string) =>
  world.until(async () => {
    const row = await captureOf(world)
    return row?.state === 'ready' && row.checkpoint_id !== but ? row : undefined
  })

const refuse = (code: HostFailureCode) => () => {
  throw new HostFailure(code, 'Refused', { retryable: false })
}

function silence({ guests }: World, operation_id: string): void {
  const { behave } = guests
  guests.behave = (name, exec) => {
    if (exec.session_id.endsWith(operation_id)) return behave(name, exec)
    throw new AgentFailure('silent', 'No answer')
  }
}

async function warmed(world: World) {
  const process = await world.startProcess()
  assert.deepEqual(await opened(world, await open(world)), COLD)
  return { process, capture: await ready(world) }
}

test('the first open is cold and requests a capture; the next restores it, and starts nothing in it', async () => {
  await using world = await warmWorld()
  const { capture, process } = await warmed(world)
  const made = world.guests.started.filter((one) => one.workspace_id === capture.id)
  assert.deepEqual(made.map(({ env }) => [env['GREETING'], env['CITY']].join(' ')), ['hello Bonn', 'hello Bonn', 'hello Bonn']) // prettier-ignore
  const next = await open(world)
  assert.deepEqual(await opened(world, next), WARM)
  const { ownership_epoch, checkpoint_id, disk } = await world.workspace(next.workspace_id)
  assert.deepEqual([ownership_epoch, checkpoint_id, disk === null], [1, null, false])
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
  assert.equal((await world.ended(await world.operate(next.workspace_id, 'reset'))).state, 'succeeded')
  const reset = await opened(world, { ...next, operation_id: next.operation_id })
  assert.deepEqual(reset, { ...WARM, started: 3 }, 'a reset starts from the files of the version')
})

test('a captured machine has no network, and its capacity is released', async () => {
  await using world = await warmWorld()
  const seen: unknown[] = []
  world.host.intercept('start', 'after', (request) => void seen.push('egress' in request ? request.egress : null))
  const { process } = await warmed(world)
  assert.equal((seen.at(-1) as { mode: string }).mode, 'deny_all')
  assert.deepEqual(await world.db.selectFrom('machines').select('id').where('kind', '=', 'build').execute(), [])
  assert.equal(process.room.waiting().length, 0)
})

test('a workspace with another input for its start-up starts cold, and so does a smaller workspace', async () => {
  await using world = await warmWorld()
  await warmed(world)
  assert.deepEqual(await opened(world, await open(world, { inputs: { CITY: 'Rome' } })), COLD)
  const small = await open(world, { resources: { memory_mib: 256 } })
  assert.deepEqual(await opened(world, small), COLD)
})

test('a capture of another engine is not restored, and is made again', async () => {
  await using world = await warmWorld()
  const { capture } = await warmed(world)
  await world.db.updateTable('template_captures').set({ engine: 'another' }).execute()
  assert.deepEqual(await opened(world, await open(world)), COLD)
  await ready(world, capture.checkpoint_id ?? '')
  assert.deepEqual(await opened(world, await open(world)), WARM)
})

for (const spoil of ['corrupt', 'missing'] as const) {
  test(`a capture that is ${spoil} fails no open: it starts cold, and another is made`, async () => {
    await using world = await warmWorld()
    const { capture } = await warmed(world)
    const checkpoint_id = capture.checkpoint_id ?? ''
    const by = { subject: { kind: 'build', id: capture.id }, operation_id: world.ids.next(), step: 's', epoch: 0, fence: 500 } as const
    if (spoil === 'corrupt') world.host.corrupt(checkpoint_id)
    else await world.host.deleteCheckpoints({ ...by, names: [checkpoint_id] })
    await sql`select setval('fences', 1000)`.execute(world.db)
    assert.deepEqual(await opened(world, await open(world)), COLD)
    await ready(world, checkpoint_id)
    assert.deepEqual(await opened(world, await open(world)), WARM)
  })
}

for (const point of ['warm.W1', 'warm.W2', 'warm.W3'] as FailpointName[]) {
  test(`a cell that is killed at ${point} is followed by one that makes it anew, and nothing is left`, async () => {
    await using world = await warmWorld()
    const hit = Promise.withResolvers<void>()
    let hits = 0
    using _ = armFailpoint(point, async () => {
      hits += 1
      if (hits > 1) return
      hit.resolve()
      await new Promise(() => undefined)
    })
    const first = await world.startProcess()
    assert.deepEqual(await opened(world, await open(world)), COLD)
    await hit.promise
    await first.kill()
    const second = await world.startProcess()
    await ready(world)
    assert.deepEqual(await opened(world, await open(world)), WARM)
    await second.engine.watch()?.sweep()
    await assertNothingIsLeft(world)
  })
}

for (const point of ['warm.W4', 'open.O8', 'open.O9'] as FailpointName[]) {
  test(`a cell that is killed at ${point} of a warm open is followed by one that ends it`, async () => {
    await using world = await warmWorld()
    const { process } = await warmed(world)
    const hit = Promise.withResolvers<void>()
    let hits = 0
    using _ = armFailpoint(point, async () => {
      hits += 1
      if (hits > 1) return
      hit.resolve()
      await new Promise(() => undefined)
    })
    const asked = await open(world)
    await hit.promise
    await process.kill()
    const second = await world.startProcess()
    const { state, startup, started } = await opened(world, asked)
    assert.deepEqual({ state, startup, started }, { state: 'succeeded', startup: { state: 'ready' }, started: 0 })
    await second.engine.watch()?.sweep()
    await assertNothingIsLeft(world)
  })
}

test('a start-up that fails ahead leaves the version cold, reports why, and is not retried within the hour', async () => {
  await using world = await warmWorld()
  const process = await world.startProcess()
  world.guests.behave = (name, { session_id }) =>
    name === 'web' ? 'runs' : { exit: name === 'migrate' && !session_id.endsWith(first.operation_id) ? 3 : 0, said: 'no network' }
  const first = await open(world)
  assert.deepEqual(await opened(world, first), COLD)
  const failed = await world.until(async () => {
    const row = await captureOf(world)
    return row?.state === 'failed' ? row : undefined
  })
  assert.deepEqual(failed.error, { step: 'migrate', reason: 'startup_failed', exit_code: 3, output_tail: 'no network' })
  world.guests.behave = (name) => (name === 'web' ? 'runs' : { exit: 0 })
  assert.deepEqual(await opened(world, await open(world)), COLD)
  assert.equal((await captureOf(world))?.state, 'failed')
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
  world.clock.set(3601)
  assert.deepEqual(await opened(world, await open(world)), COLD)
  await ready(world)
})

for (const [why, reason, wrong] of [
  ['is not saved', 'machine_failed', (world: World) => world.host.intercept('checkpoint', 'before', refuse('checkpoint_failed'))],
  ['finds the pool full', 'machine_failed', (world: World) => world.host.intercept('checkpoint', 'before', refuse('no_space'))],
  ['is silent', 'no_answer', silence],
] as [string, string, (world: World, operation_id: string) => unknown][]) {
  test(`a machine that ${why} is told as ${reason}, and nothing of it is left`, async () => {
    await using world = await warmWorld()
    const asked = await open(world)
    wrong(world, asked.operation_id)
    const process = await world.startProcess()
    assert.deepEqual(await opened(world, asked), COLD)
    const failed = await world.until(async () => {
      const row = await captureOf(world)
      return row?.state === 'failed' ? row : undefined
    })
    assert.partialDeepStrictEqual(failed.error, { step: null, reason })
    await process.engine.watch()?.sweep()
    await assertNothingIsLeft(world)
  })
}

test('captures of archived versions are removed, with their files', async () => {
  await using world = await warmWorld()
  const { process } = await warmed(world)
  await world.db.updateTable('template_versions').set({ archived_at: world.clock.now() }).execute()
  await world.until(async () => (await captureOf(world)) === undefined)
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a computer that is to keep no captures makes none', async () => {
  await using world = await warmWorld()
  const first = await warmed(world)
  await first.process.close()
  const process = await world.startProcess({ warm_machines_max: 0 })
  await world.until(async () => (await captureOf(world)) === undefined)
  assert.deepEqual(await opened(world, await open(world)), COLD)
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})
