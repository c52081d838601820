import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import pino from 'pino'
import { createExecutions, type Executions } from '../../service/cell/executions/executions.ts'
import { openLink } from '../../service/cell/links/agent.ts'
import { AGENT_PROTOCOLS } from '../../service/cell/links/agent-protocol.ts'
import { armFailpoint, FAILPOINTS, type FailpointName } from '../../service/lib/failpoints.ts'
import { createIds } from '../../service/lib/ids.ts'
import { executionCalls } from './support/executions.ts'
import type { Bench } from './support/gateway.ts'
import { HOME, openTreeBench, treeCalls } from './support/tree-calls.ts'

let bench: Bench
const { direct, fresh, playing } = executionCalls(() => bench)
const { stat, write } = treeCalls(() => bench)
before(async () => {
  bench = await openTreeBench()
  direct()
})
after(() => bench[Symbol.asyncDispose]())

const revision = async () => Number((await stat(HOME)).headers.get('x-tree-revision'))

/** The process that takes over. */
function successor(): Executions {
  const { agent, cell_id, database, clock, machine_host, room, trees } = bench
  const place = { address: agent.address, agent_key: 'agent-key', epoch: 3, agent_protocol: AGENT_PROTOCOLS.current }
  const log = pino({ level: 'silent' })
  const deps = { cell_id, db: database.cell, clock, ids: createIds(clock), host: machine_host, room, trees, log }
  return createExecutions({ ...deps, openLink: () => openLink(place) })
}

const POINTS = Object.keys(FAILPOINTS).filter((name): name is FailpointName => name.startsWith('execution.'))

for (const point of POINTS) {
  const is_recorded = point !== 'execution.E1'
  const is_published = point === 'execution.E7'
  const became = is_published
    ? 'the next revision is there once'
    : is_recorded
      ? 'it is lost, and nothing is published'
      : 'it was never asked for'
  test(`a process that ends before ${FAILPOINTS[point].before}: ${became}, the id is run once at most, and a zombie changes nothing`, async () => {
    const id = fresh()
    let runs = 0
    using _play = playing((session, files) => {
      runs += 1
      files.set(`${id}.txt`, id)
      session.exit(0)
    })
    const base = await revision()
    const asked = {
      workspace_id: bench.workspace_id,
      execution_id: id,
      fingerprint: 'same',
      command: async () => ({ exec: { argv: ['true'], cwd: HOME, user: 'user', env: {} }, output_limit_bytes: 100 }),
    }
    const [met, goes_on] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const armed = armFailpoint(point, async () => {
      met.resolve()
      await goes_on.promise
    })
    const zombie = bench.executions.run(asked).catch((error: unknown) => error)
    await met.promise
    armed[Symbol.dispose]()
    const next = successor()
    await next.recover()
    const found = await next.find(asked)
    const expected = is_published ? ['succeeded', undefined] : is_recorded ? ['lost', 'host_restarted'] : [undefined, undefined]
    assert.deepEqual([found?.state, found?.error?.details.reason], expected)
    assert.equal(await revision(), base + (is_published ? 1 : 0))
    const again = await next.run(asked)
    assert.deepEqual([again.ran, again.row.state], [!is_recorded, is_recorded ? expected[0] : 'succeeded'])
    const settled = await revision()
    assert.equal(settled, base + (is_published || !is_recorded ? 1 : 0))
    goes_on.resolve()
    await zombie
    assert.equal(await revision(), settled, 'the zombie has published nothing')
    assert.ok(runs <= 1, `it ran ${runs} times`)
    assert.equal((await next.find(asked))?.state, again.row.state)
    assert.equal((await write(`${HOME}/after-${id}`, 'x')).status, 200, 'the tree is free')
    const rows = await bench.database.superuser.selectFrom('machines').selectAll().where('kind', '=', 'execution').execute()
    assert.deepEqual(rows, [])
    // What is left on the host does not keep the next one from running.
    const other = await next.run({ ...asked, execution_id: fresh(), fingerprint: 'other' })
    assert.equal(other.row.state, 'succeeded', JSON.stringify(other.row.error))
  })
}
