import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import pino from 'pino'
import { createExecutions, type Executions } from '../../service/cell/filetree/executions/executions.ts'
import { openLink } from '../../service/cell/host/agent.ts'
import { AGENT_PROTOCOLS } from '../../service/cell/host/agent-protocol.ts'
import { armFailpoint, FAILPOINTS, type FailpointName } from '../../service/lib/failpoints.ts'
import { createIds } from '../../service/lib/ids.ts'
import { until } from '../support/processes.ts'
import { executionCalls } from './support/executions.ts'
import type { Bench } from './support/gateway.ts'
import { HOME, openTreeBench, treeCalls } from './support/tree-calls.ts'

let bench: Bench
const { direct, fresh, find, playing, start } = executionCalls(() => bench)
const { stat, write } = treeCalls(() => bench)
before(async () => {
  bench = await openTreeBench()
  direct()
})
after(() => bench[Symbol.asyncDispose]())

const revision = async () => Number((await stat(HOME)).headers.get('x-tree-revision'))

function successor(more: { overtime_ms?: number } = {}): Executions {
  const { agent, cell_id, database, clock, machine_host, room, trees } = bench
  const place = { address: agent.address, agent_key: 'agent-key', epoch: 3, agent_protocol: AGENT_PROTOCOLS.current }
  const log = pino({ level: 'silent' })
  const deps = { cell_id, db: database.cell, clock, ids: createIds(clock), host: machine_host, room, trees, log }
  return createExecutions({ ...deps, openLink: () => openLink(place), ...more })
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
      shown: { argv: ['true'], argv_truncated: false, cwd: HOME },
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
    const other = await next.run({ ...asked, execution_id: fresh(), fingerprint: 'other' })
    assert.equal(other.row.state, 'succeeded', JSON.stringify(other.row.error))
  })
}

test('a live guest that does not end its command in time is stopped, and the execution is lost', async () => {
  using _play = playing(() => undefined)
  const shown = { argv: ['true'], argv_truncated: false, cwd: HOME }
  const asked = { workspace_id: bench.workspace_id, execution_id: fresh(), fingerprint: 'endless', shown }
  const exec = { argv: ['true'], cwd: HOME, user: 'user', env: {}, timeout_ms: 50 }
  const { row } = await successor({ overtime_ms: 50 }).run({ ...asked, command: async () => ({ exec, output_limit_bytes: 100 }) })
  assert.deepEqual([row.state, row.error?.details.reason], ['lost', 'host_unreachable'])
  assert.deepEqual(
    (await bench.machine_host.inventory()).machines.filter(({ subject }) => subject.kind === 'execution'),
    [],
  )
  assert.equal((await write(`${HOME}/after-endless`, 'x')).status, 200)
})

async function refusingEnds(sqlstate: string) {
  const { superuser } = bench.database
  await sql`create sequence refusals`.execute(superuser)
  await sql
    .raw(
      `create function refuse_end() returns trigger language plpgsql as $$
       begin perform nextval('refusals'); raise exception 'refused' using errcode = '${sqlstate}'; end $$;
       grant usage on sequence refusals to public;
       create trigger refuse_end before update on executions for each row when (new.finished_at is not null) execute function refuse_end()`,
    )
    .execute(superuser)
  return {
    refusals: async () =>
      (await sql<{ n: number }>`select last_value::int as n from refusals where is_called`.execute(superuser)).rows[0]?.n ?? 0,
    async [Symbol.asyncDispose]() {
      await sql.raw('drop trigger refuse_end on executions; drop function refuse_end; drop sequence refusals').execute(superuser)
    },
  }
}

test('an end that the database refuses for a while is written again, and the revision is published once', async () => {
  using _play = playing((session, files) => {
    files.set('kept.txt', 'kept')
    session.exit(0)
  })
  const base = await revision()
  const refusing = await refusingEnds('53100')
  const answer = start({ execution_id: fresh() })
  await until('it was tried twice', 60_000, async () => (await refusing.refusals()) >= 2)
  await refusing[Symbol.asyncDispose]()
  const { state, tree_revision } = (await (await answer).json()) as { state: string; tree_revision: number }
  assert.deepEqual([state, tree_revision, await revision()], ['succeeded', base + 1, base + 1])
})

test('an execution whose end was never written is lost at the next pass and frees its workspace; a running one stays', async () => {
  using _play = playing((session) => session.exit(0))
  const id = fresh()
  {
    await using _refusing = await refusingEnds('XX000')
    assert.equal((await start({ execution_id: id })).status, 500)
    assert.equal((await write(`${HOME}/no`, 'x')).status, 409)
  }
  assert.equal(await bench.executions.endAbandoned(), 1)
  const found = (await (await find(id)).json()) as { state: string; error: { details: { reason: string } } }
  assert.deepEqual([found.state, found.error.details.reason], ['lost', 'lease_expired'])
  assert.equal((await write(`${HOME}/yes`, 'x')).status, 200)

  const goes_on = Promise.withResolvers<void>()
  const armed = armFailpoint('execution.E6', () => goes_on.promise)
  const running = start({ execution_id: fresh() })
  await until('it runs', 60_000, async () => (await write(`${HOME}/no`, 'x')).status === 409)
  assert.equal(await bench.executions.endAbandoned(), 0)
  armed[Symbol.dispose]()
  goes_on.resolve()
  assert.equal((await running).status, 201)
})
