import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OBSERVED_STATES, type ObservedState } from '../../../contract/states/machine.ts'
import { createWorld, entryOf, type Process, type World } from '../../../tests/engine/world.ts'
import { runningEntry } from '../../../tests/gateway/support/fake-table.ts'
import { fail, Failure } from '../../lib/fail.ts'
import { armFailpoint } from '../../lib/failpoints.ts'
import type { WorkspaceEntry } from '../machines/table.ts'
import { type Admission, type Admitting, admitTo } from './admit.ts'
import { decideSituation } from './situation.ts'

const { entry: RUNNING } = runningEntry('018f0000-0000-7000-8000-000000000002', 'here', 'nowhere')
const HOLD = { operation_id: '018f0000-0000-7000-8000-000000000001', operation_kind: 'suspend' } as const

test('a workspace is judged by its address and the caller’s refusal first, then by operations, then by its state', () => {
  const kind = (change: Partial<WorkspaceEntry>, refusal: Failure | null = null, read_only = false) =>
    decideSituation({ ...RUNNING, ...change }, { cell_id: 'here', read_only, refusedBy: () => refusal }).kind
  const kinds = Object.fromEntries(OBSERVED_STATES.map((observed_state) => [observed_state, kind({ observed_state, machine: null })]))
  assert.deepEqual(kinds, {
    creating: 'moving',
    starting: 'moving',
    running: 'moving', // the host has not reported the machine
    suspending: 'moving',
    suspended: 'suspended',
    resuming: 'moving',
    forking: 'moving',
    stopping: 'refused',
    failed: 'refused',
    deleting: 'refused',
    deleted: 'refused',
  } satisfies Record<ObservedState, string>)
  assert.equal(kind({}), 'resident')
  assert.equal(kind({ residency: 'hibernated', machine: null }), 'parked')
  assert.equal(kind({ mode: 'file_first', machine: null }), 'machineless')
  assert.equal(kind({ observed_state: 'failed', hold: { ...HOLD, gate: 'closed' } }), 'moving')
  assert.equal(kind({ hold: { ...HOLD, gate: 'read_only' } }), 'moving')
  assert.equal(kind({ hold: { ...HOLD, gate: 'read_only' } }, null, true), 'resident')
  assert.equal(kind({ hold: { ...HOLD, gate: 'closed' } }, fail('stale_epoch', null, 'Old')), 'refused')
  assert.equal(kind({ here: false, cell_id: 'elsewhere', observed_state: 'suspended' }), 'refused')
})

interface Bed {
  world: World
  process: Process
  id: string
  deps: Admitting
  holds(): number
  enter(change?: Partial<Admission<Disposable>>): ReturnType<typeof admitTo>
}

async function bed(world: World, start = world.startProcess()): Promise<Bed> {
  const process = await start
  const { workspace_id: id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  const { cell_id } = await entryOf(process, id)
  const deps = { table: process.table, waking: process.parking, clock: world.clock, cell_id: cell_id ?? '' }
  let holds = 0
  const hold = (): Disposable => {
    holds += 1
    const awake = process.table.holdAwake(id, 'call')
    return {
      [Symbol.dispose]() {
        holds -= 1
        awake[Symbol.dispose]()
      },
    }
  }
  const enter: Bed['enter'] = (change) =>
    admitTo(deps, { workspace_id: id, needs: 'machine', read_only: false, refusedBy: () => null, hold, ...change })
  return { world, process, id, deps, holds: () => holds, enter }
}

const at_once = async (entering: ReturnType<typeof admitTo>) => {
  using admitted = { ...(await entering), [Symbol.dispose]: () => undefined }
  admitted.held[Symbol.dispose]()
  return admitted.by
}

test('a workspace serves when it runs, is frozen or is hibernated', async () => {
  await using world = await createWorld()
  const { process, id, enter, holds } = await bed(world)
  assert.equal(await at_once(enter()), 'machine')
  await process.parking.freeze(await entryOf(process, id))
  assert.equal(process.table.get(id)?.machine?.state, 'frozen')
  assert.equal(await at_once(enter()), 'machine')
  await process.parking.hibernate(await entryOf(process, id))
  assert.equal((await entryOf(process, id)).residency, 'hibernated')
  assert.equal(await at_once(enter()), 'machine')
  assert.deepEqual([holds(), (await world.workspace(id)).observed_state], [0, 'running'])
})

test('a suspended workspace is refused at once, and no operation begins', async () => {
  await using world = await createWorld()
  const { process, id, deps, holds } = await bed(world)
  assert.equal((await world.ended(await world.operate(id, 'suspend'))).state, 'succeeded')
  const refusal = { code: 'workspace_not_running' }
  const hold = () => assert.fail('a place was taken')
  for (const needs of ['machine', 'nothing'] as const)
    await assert.rejects(admitTo(deps, { workspace_id: id, needs, read_only: true, refusedBy: () => null, hold }), refusal)
  assert.deepEqual([holds(), (await world.workspace(id)).observed_state], [0, 'suspended'])
  const files = await admitTo(deps, {
    workspace_id: id,
    needs: 'files',
    read_only: true,
    refusedBy: () => null,
    hold: () => process.table.holdAwake(id, 'call'),
  })
  assert.equal(files.by, 'disk')
  files.held[Symbol.dispose]()
})

test('an operation that begins during a wake refuses the call, and its permit is released', async () => {
  await using world = await createWorld()
  const { process, id, enter, holds } = await bed(world)
  await process.parking.hibernate(await entryOf(process, id))
  const [reached, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let entered: ReturnType<typeof admitTo>
  {
    using _ = armFailpoint('wake.W1', () => {
      reached.resolve()
      return go.promise
    })
    entered = enter()
    await reached.promise
    assert.equal(holds(), 1)
  }
  const operation_id = await world.operate(id, 'suspend')
  go.resolve()
  await assert.rejects(entered, { code: 'workspace_busy' })
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  assert.equal(holds(), 0)
})

test('a workspace that is served by another cell, deleted or unknown is refused', async () => {
  await using world = await createWorld()
  const { id, enter, deps } = await bed(world)
  await assert.rejects(enter({ refusedBy: () => fail('stale_epoch', null, 'Old') }), { code: 'stale_epoch' })
  await assert.rejects(enter({ workspace_id: HOLD.operation_id }), { code: 'not_found' })
  const elsewhere = { ...deps, cell_id: HOLD.operation_id }
  const here = deps.table.get(id)
  assert.ok(here)
  const table = { ...deps.table, get: () => ({ ...here, here: false }), fresh: async () => ({ ...here, here: false }) }
  const asked: Admission<Disposable> = { workspace_id: id, needs: 'machine', read_only: false, refusedBy: () => null, hold: () => assert.fail('a place was taken') } // prettier-ignore
  await assert.rejects(admitTo({ ...elsewhere, table }, asked), { code: 'conflict', reason: 'stale_endpoint' })
  assert.equal((await world.ended(await world.operate(id, 'delete'))).state, 'succeeded')
  await assert.rejects(enter(), Failure)
})
