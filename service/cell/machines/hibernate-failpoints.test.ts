import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld, entryOf, type Process, type World } from '../../../tests/engine/world.ts'
import { assertNothingIsLeft } from '../../../tests/engine/invariants.ts'
import { Failure } from '../../lib/fail.ts'
import { armFailpoint, FAILPOINTS, FailpointError, type FailpointName } from '../../lib/failpoints.ts'

const POINTS = (Object.keys(FAILPOINTS) as FailpointName[]).filter((name) => /^(hibernate|wake)\./.test(name))
/**
 * throw: the step fails once. kill -9: another process starts. zombie: the first process continues after another process has repaired its
 * state.
 */
const MODES = ['throw', 'kill -9', 'zombie'] as const

async function awake(world: World, process: Process, id: string): Promise<void> {
  await world.until(async () => {
    const entry = await entryOf(process, id)
    if (process.parking.ready(entry) !== null) return true
    await process.parking.wake(entry).catch(() => undefined) // retried, as a real caller does
    return false
  })
}

async function prepared(world: World, process: Process, hibernated: boolean): Promise<string> {
  const { workspace_id: id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  await world.until(async () => (await process.table.fresh(id))?.machine ?? undefined)
  world.host.guest(id).memory.set('canary', 'in memory')
  world.host.guest(id).files.set('/f', 'on disk')
  if (hibernated) await process.parking.hibernate(await entryOf(process, id))
  return id
}

for (const point of POINTS) {
  for (const mode of MODES) {
    test(`${point}, ${mode}: the workspace runs on or sleeps, nothing is lost and nothing is left`, async () => {
      await using world = await createWorld()
      const first = await world.startProcess()
      const wakes = point.startsWith('wake.')
      const id = await prepared(world, first, wakes)
      const hit = Promise.withResolvers<void>()
      const go_on = Promise.withResolvers<void>()
      let hits = 0
      using _ = armFailpoint(point, (name) => {
        hits += 1
        if (hits > 1) return
        hit.resolve()
        if (mode === 'throw') throw new FailpointError(name)
        return go_on.promise // a killed process never continues
      })
      const entry = await entryOf(first, id)
      const move = wakes ? first.parking.wake(entry) : first.parking.hibernate(entry)
      const moved = move.then(
        () => undefined,
        (error: unknown) => (error instanceof Failure ? error.reason : error),
      )
      await hit.promise
      let process = first
      if (mode === 'throw') {
        const refused = await moved
        if (wakes) assert.equal(refused, 'wake_failed')
      }
      if (mode === 'kill -9') await first.kill()
      if (mode !== 'throw') process = await successor(world, first, mode)
      await awake(world, process, id)
      world.host.guest(id).memory.set('since', 'kept')
      if (mode === 'zombie') {
        go_on.resolve()
        await moved
      }
      await process.engine.watch()?.sweep()
      await awake(world, process, id)
      const { memory, files } = world.host.guest(id)
      assert.deepEqual([memory.get('canary'), memory.get('since'), files.get('/f')], ['in memory', 'kept', 'on disk'])
      assert.equal((await world.workspace(id)).ownership_epoch, 1)
      await process.parking.transitionEnded(id)
      await world.until(async () => (await process.engine.watch()?.sweep(), (await world.host.inventory()).machines[0]?.connected))
      await assertNothingIsLeft(world)
    })
  }
}

/** A zombie stalls for so long that its database connection counts as dead. */
async function successor(world: World, first: Process, mode: 'kill -9' | 'zombie'): Promise<Process> {
  if (mode === 'zombie') await first.engine.close(0)
  return world.startProcess()
}
