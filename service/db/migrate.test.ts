import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import pg from 'pg'
import { freshDatabase, type TestDatabase } from '../../tests/support/postgres.ts'
import { until } from '../../tests/support/processes.ts'
import { migrate } from './migrate.ts'
import { migrationFile, readMigrations } from './migration-files.ts'
import { checkSchema, schemaProblem } from './schema-version.ts'

const file = (number: number, words: string, text: string) => migrationFile(`${number}_${words}.sql`, text)

async function after(...more: ReturnType<typeof file>[]) {
  return { files: [...(await readMigrations()), ...more] }
}

async function exists(database: TestDatabase, name: string): Promise<boolean> {
  const { rows } = await sql<{ found: boolean }>`select to_regclass(${name}) is not null as found`.execute(database.superuser)
  return rows[0]?.found ?? false
}

async function empty(database: TestDatabase): Promise<void> {
  await sql`drop schema public cascade`.execute(database.superuser)
  await sql`create schema public`.execute(database.superuser)
  await sql`grant usage on schema public to public`.execute(database.superuser)
}

test('migrating an up-to-date database applies nothing', async () => {
  await using database = await freshDatabase()
  assert.deepEqual(await migrate(database.url), [])
})

test('three processes that migrate an empty database at once apply every migration once', async () => {
  await using database = await freshDatabase()
  await empty(database)
  const applied = (await Promise.all([1, 2, 3].map(() => migrate(database.url)))).flat()
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(database.superuser)
  assert.deepEqual(
    applied.sort(),
    rows.map((row) => row.name),
  )
})

test('a failing migration rolls back itself and those before it', async () => {
  await using database = await freshDatabase()
  const options = await after(file(9001, 'good', 'create table good (id integer);'), file(9002, 'bad', 'create tabel bad;'))
  await assert.rejects(migrate(database.url, options), { message: 'Migration 9002_bad failed' })
  assert.equal(await exists(database, 'good'), false)
})

test('an interrupted statement outside a transaction is repaired, and splits earlier from later migrations', async () => {
  await using database = await freshDatabase()
  const index = '-- migrate: outside a transaction\ncreate unique index concurrently if not exists twice on half (id);\n'
  const before = file(9001, 'before', 'create table half (id integer); insert into half values (1), (1);')
  const late = file(9003, 'after', 'alter table half add column more integer;')
  const options = await after(before, file(9002, 'index', index), late)
  await assert.rejects(migrate(database.url, options), { message: 'Migration 9002_index failed' })
  const state = async () =>
    (
      await sql<{ indisvalid: boolean }>`select indisvalid from pg_index where indexrelid = to_regclass('twice')`.execute(
        database.superuser,
      )
    ).rows
  assert.deepEqual(await state(), [{ indisvalid: false }]) // the failed build has left an invalid index
  await sql`delete from half where ctid = (select ctid from half limit 1)`.execute(database.superuser)
  assert.deepEqual(await migrate(database.url, options), ['9002_index', '9003_after'])
  assert.deepEqual(await state(), [{ indisvalid: true }])
})

test('an index is built while other processes wait to migrate', async () => {
  await using database = await freshDatabase()
  const index = '-- migrate: outside a transaction\ncreate index concurrently if not exists by_slug on plans (slug, id);\n'
  const options = await after(file(9001, 'index', index))
  const applied = await Promise.all([1, 2, 3].map(() => migrate(database.url, options)))
  assert.deepEqual(applied.flat(), ['9001_index'])
})

test('a migration without its lock lets others continue, retries, and finally tells what to do', async () => {
  await using database = await freshDatabase()
  const holder = new pg.Client({ connectionString: database.url })
  await holder.connect()
  const options = await after(file(9001, 'column', 'alter table plans add column more integer;'))
  try {
    await holder.query('begin')
    await holder.query('select from plans')
    await assert.rejects(migrate(database.url, { ...options, lock_wait_ms: 20, tries: 2 }), {
      message:
        '9001_column: a lock was not to be had in 2 tries. Something holds it: end long transactions (pg_stat_activity), and start again',
    })
    const migrated = migrate(database.url, { ...options, lock_wait_ms: 60_000 })
    const waiting = sql`select from pg_locks where relation = 'plans'::regclass and not granted`
    await until('the migration waits', 60_000, async () => (await waiting.execute(database.superuser)).rows.length === 1)
    await holder.query('commit')
    assert.deepEqual(await migrated, ['9001_column'])
  } finally {
    await holder.end()
  }
})

test('a database of another version is refused with the reason', async () => {
  await using database = await freshDatabase()
  const one = file(9001, 'one', 'create table one (id integer);')
  await migrate(database.url, await after(one))
  const cases: [options: Awaited<ReturnType<typeof after>>, message: RegExp][] = [
    [await after(file(9001, 'one', 'create table one (id bigint);')), /has a migration 9001_one of another content/],
    [await after(file(9002, 'two', '')), /has a migration 9001_one that this version does not have/],
    [await after(one, file(8999, 'late', '')), /Migration 8999_late is missing in a database that has later ones: give it a higher number/],
  ]
  for (const [options, message] of cases) await assert.rejects(migrate(database.url, options), { message })
})

test('a version starts on a newer schema until a migration needs a newer version', async () => {
  await using database = await freshDatabase()
  const check = () => Promise.all([checkSchema(database.options('berth_api')), checkSchema(database.options('berth_cell'))])
  const expand = file(9001, 'expand', 'alter table plans add column more integer;')
  await migrate(database.url, await after(expand))
  await check()
  assert.deepEqual(await migrate(database.url), [])
  await migrate(database.url, await after(expand, file(9002, 'contract', '-- migrate: needs 9001\nalter table plans drop column name;')))
  const refused = { message: /migrated by a newer version of Berth \(9002_contract\)/ }
  await assert.rejects(check(), refused)
  await assert.rejects(migrate(database.url), refused)
})

test('a process does not start on a schema that is older than it', async () => {
  await using database = await freshDatabase()
  await sql`delete from kysely_migration where name = (select max(name) from kysely_migration)`.execute(database.superuser)
  const newest = (await readMigrations()).at(-1)?.name
  const refused = { message: `The database lacks the migration ${newest}: \`npm start\` of this version applies it. Nothing was changed` }
  await assert.rejects(checkSchema(database.options('berth_cell')), refused)
  await empty(database)
  await assert.rejects(checkSchema(database.options('berth_api')), { message: /^The database lacks the migration 0001_foundation/ })
  assert.equal(schemaProblem(['0001_a'], [{ name: '0001_a', needs: null }]), null)
})
