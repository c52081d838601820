import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import pino from 'pino'
import { createObservedPolicies } from '../../service/cell/policies/egress/observed-policies.ts'
import { startEngine } from '../../service/cell/engine.ts'
import { createFakeHost } from '../../service/cell/host/fake/host.ts'
import { registerCell } from '../../service/cell/machines/cells-store.ts'
import { createMachineTable } from '../../service/cell/machines/live-table.ts'
import { createParking } from '../../service/cell/machines/parking.ts'
import { createAgentCallCounter } from '../../service/cell/machines/agent-calls.ts'
import { createCapacityAllocator } from '../../service/cell/capacity/allocator.ts'
import { createTrees } from '../../service/cell/filetree/trees/trees.ts'
import { cellChannels, openListener } from '../../service/db/listen.ts'
import { migrate } from '../../service/db/migrate.ts'
import { readLock } from '../../service/db/migration-files.ts'
import { createIds } from '../../service/lib/ids.ts'
import { systemClock } from '../../service/lib/clock.ts'
import type { TestDatabase } from '../support/postgres.ts'
import { startupGuests } from '../support/startup-guest.ts'
import { treesFolder } from '../support/trees-folder.ts'
import { oldDatabase, readAll, readFixture, releases, serve } from './fixture.ts'

type Row = Record<string, unknown>

async function keysOf({ superuser }: TestDatabase): Promise<{ table: string; key: string[] }[]> {
  const { rows } = await sql<{ table: string; key: string[] }>`
    select c.relname as "table", array_agg(a.attname::text order by a.attnum) as key
    from pg_constraint k join pg_class c on c.oid = k.conrelid join pg_attribute a on a.attrelid = c.oid and a.attnum = any(k.conkey)
    where k.contype = 'p' and c.relnamespace = 'public'::regnamespace and c.relname not like 'kysely_%' group by 1`.execute(superuser)
  return rows
}

async function everyRow({ superuser }: TestDatabase, keys: { table: string; key: string[] }[]): Promise<Map<string, Row>> {
  const all = new Map<string, Row>()
  for (const { table, key } of keys) {
    const { rows } = await sql<{ row: Row }>`select to_jsonb(t) as row from ${sql.table(table)} t`.execute(superuser)
    for (const { row } of rows) all.set(`${table} ${JSON.stringify(key.map((column) => row[column]))}`, row)
  }
  return all
}

/** Columns that a migration rewrites. */
const SAID_OTHERWISE = [
  ['plans', 'refuses_starts'], // missing limits are named
  ['idempotency_entries', 'outcome'], // the caller moved to another column; the next test repeats the requests
]

function isSaidOtherwise(row: string, column: string): boolean {
  return SAID_OTHERWISE.some(([table, name]) => row.startsWith(`${table} `) && column === name)
}

/** Drops new fields at every depth, because a later release may answer more. */
function asFarAs(old: unknown, now: unknown): unknown {
  if (Array.isArray(old) && Array.isArray(now)) return now.map((one, at) => asFarAs(old[at], one))
  if (!isObject(old) || !isObject(now)) return now
  return Object.fromEntries(
    Object.entries(now)
      .filter(([name]) => name in old)
      .map(([name, value]) => [name, asFarAs(old[name], value)]),
  )
}

function isObject(value: unknown): value is Row {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Request ids differ in every answer. */
function withoutId(answer: unknown): unknown {
  return JSON.parse(JSON.stringify(answer, (name, value: unknown) => (name === 'request_id' ? undefined : value)))
}

test('every release has a database of its own', async () => {
  assert.deepEqual(releases().sort(), Object.keys((await readLock()).releases).sort())
  for (const release of releases()) assert.equal((await readFixture(release)).fixture.schema, (await readLock()).releases[release])
})

for (const release of releases()) {
  test(`a populated database of ${release} is brought to this version, and every row is there and served`, async () => {
    const { fixture, rows } = await readFixture(release)
    await using database = await oldDatabase(fixture.schema, rows)
    const keys = await keysOf(database)
    const before = await everyRow(database, keys)
    assert.ok((await migrate(database.url)).every((name) => name > fixture.schema))
    const after = await everyRow(database, keys)
    for (const [name, row] of before) {
      const kept = after.get(name)
      assert.ok(kept, `${name} is gone`)
      const columns = Object.keys(row).filter((column) => column in kept && !isSaidOtherwise(name, column))
      for (const column of columns) assert.deepEqual(kept[column], row[column], `${name}: ${column}`)
    }
    await using served = await serve(database, fixture)
    const answers = await readAll(served, fixture.callers)
    assert.deepEqual(
      answers.map(({ as, path }) => `${as} ${path}`),
      fixture.answers.map(({ as, path }) => `${as} ${path}`),
    )
    for (const [at, old] of fixture.answers.entries()) {
      const { status, body } = answers[at] ?? assert.fail(old.path)
      assert.deepEqual([status, asFarAs(withoutId(old.body), withoutId(body))], [old.status, withoutId(old.body)], `${old.as} ${old.path}`)
    }
  })

  test(`repeats of requests that ${release} answered are answered as then`, async () => {
    const { fixture, rows } = await readFixture(release)
    await using database = await oldDatabase(fixture.schema, rows)
    await migrate(database.url)
    await using served = await serve(database, fixture)
    for (const request of fixture.repeats) {
      const { status, body } = await served.repeat(request)
      const old = withoutId(request.answer)
      assert.deepEqual([status, asFarAs(old, withoutId(body))], [request.status, old], request.path)
    }
  })

  test(`a cell takes over a database of ${release}: what sleeps sleeps on, and what is another cell's is left`, async () => {
    const { fixture, rows } = await readFixture(release)
    await using database = await oldDatabase(fixture.schema, rows)
    await migrate(database.url)
    const before = await states(database)
    const clock = { ...systemClock, now: () => new Date(fixture.taken_at) }
    const [db, ids, log] = [database.cell, createIds(clock), pino({ level: 'silent' })]
    const cell_id = await registerCell(db, { id: ids.next(), name: 'one', endpoint: 'http://one.cell.test' }, clock.now())
    const listener = await openListener(database.options('berth_cell'), cellChannels(cell_id))
    const host = createFakeHost({ clock })
    const table = createMachineTable({ db, listener, clock, cell_id })
    const room = createCapacityAllocator({ db, cell_id })
    const startup = startupGuests()
    const parking = createParking({ cell_id, db, clock, ids, host, table, room, log })
    const engine = startEngine({
      cell: {
        cell_id,
        db,
        clock,
        ids,
        host,
        table,
        room,
        parking,
        agents: startup.agents,
        secrets: startup.secrets,
        trees: createTrees({ db, clock, folder: treesFolder() }),
        executions: { recover: async () => undefined, endAbandoned: async () => 0 },
        log,
        quarantine_days: 7,
        warm_machines_max: 8,
      },
      listener,
      egress: createObservedPolicies(),
      database: database.options('berth_cell'),
      endpoint: 'http://one.cell.test',
      ask_activity: async () => null,
      questions: createAgentCallCounter(),
      park_after: { freeze_after_seconds: 0, hibernate_after_seconds: 0 },
    })
    try {
      await engine.ready
      const after = await states(database)
      assert.deepEqual([...after.keys()], [...before.keys()])
      for (const [id, { cell, observed_state, desired_state, key }] of before) {
        const is_here = cell === 'one'
        // On a new computer, workspaces that ran have no machine, so they fail. Nothing else has changed.
        const lost = is_here && observed_state === 'running' && key !== 'hibernated'
        assert.deepEqual(after.get(id), { cell, key, observed_state: lost ? 'failed' : observed_state, desired_state }, key)
      }
    } finally {
      await engine.close(5000)
      table.close()
      await listener.close()
    }
  })
}

interface State {
  key: string
  cell: string | null
  observed_state: string
  desired_state: string
}

async function states({ superuser }: TestDatabase): Promise<Map<string, State>> {
  const rows = await superuser
    .selectFrom('workspaces as w')
    .leftJoin('cells as c', 'c.id', 'w.cell_id')
    .select(['w.id', 'w.key', 'c.name as cell', 'w.observed_state', 'w.desired_state'])
    .orderBy('w.id')
    .execute()
  return new Map(rows.map(({ id, ...state }) => [id, state]))
}
