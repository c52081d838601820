import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertNothingIsLeft } from '../../../tests/engine/invariants.ts'
import { createWorld, type Process, type World } from '../../../tests/engine/world.ts'
import type { FakeHost } from '../host/fake/host.ts'

async function running(world: World, process: Process): Promise<string> {
  const { workspace_id: id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  await world.until(async () => (await process.table.fresh(id))?.machine ?? undefined)
  world.host.guest(id).memory.set('canary', 'in memory')
  return id
}

const machine = async (host: FakeHost) => (await host.inventory()).machines[0]

/** @returns a function that brings the database back. It resolves after the process has noticed. */
async function loseDatabase(world: World, process: Process, begin: () => Promise<unknown>): Promise<() => Promise<void>> {
  const gone = Promise.withResolvers<() => Promise<void>>()
  using _ = world.host.intercept('checkpoint', 'after', async () => gone.resolve(await world.database.goAway()))
  await begin()
  const letIn = await gone.promise
  await world.until(async () => !process.engine.isReady())
  return letIn
}

test('a guest whose hibernation could be neither committed nor undone runs again when the database is back', async () => {
  await using world = await createWorld()
  const process = await world.startProcess({ tries_max: 2 })
  const id = await running(world, process)
  const entry = process.table.get(id)
  assert.ok(entry)
  let moved: Promise<unknown> = Promise.resolve()
  const letIn = await loseDatabase(world, process, async () => {
    moved = process.parking.hibernate(entry)
    moved.catch(() => undefined) // handles a rejection that comes before the test awaits it
  })
  await assert.rejects(moved)
  await process.parking.transitionEnded(id)
  assert.equal((await machine(world.host))?.state, 'paused', 'whether it was committed cannot be known')

  await letIn()
  await world.until(async () => process.engine.isReady())
  assert.equal((await machine(world.host))?.state, 'running')
  assert.equal(process.table.get(id)?.machine?.state, 'running')
  assert.equal(world.host.guest(id).memory.get('canary'), 'in memory')
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a suspend that could not be committed ends when the database is back', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world, process)
  let operation_id = ''
  const letIn = await loseDatabase(world, process, async () => (operation_id = await world.operate(id, 'suspend')))
  assert.equal((await machine(world.host))?.state, 'paused')

  await letIn()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  assert.equal((await world.workspace(id)).observed_state, 'suspended')
  assert.equal((await world.ended(await world.operate(id, 'resume'))).state, 'succeeded')
  assert.equal(world.host.guest(id).memory.get('canary'), 'in memory')
  await world.until(async () => process.engine.isReady())
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})
