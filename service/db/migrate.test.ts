import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { freshDatabase } from '../../tests/support/postgres.ts'
import { migrate } from './migrate.ts'

test('migrating a database that is up to date applies nothing', async () => {
  await using database = await freshDatabase()
  assert.deepEqual(await migrate(database.url), [])
})

test('three processes that migrate an empty database at once apply every migration once', async () => {
  await using database = await freshDatabase()
  await sql`drop schema public cascade`.execute(database.superuser)
  await sql`create schema public`.execute(database.superuser)
  await sql`grant usage on schema public to public`.execute(database.superuser)
  const applied = (await Promise.all([1, 2, 3].map(() => migrate(database.url)))).flat()
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(database.superuser)
  assert.deepEqual(
    applied.sort(),
    rows.map((row) => row.name),
  )
})

test('the role of each process may read, and may not write what is not its own', async () => {
  await using database = await freshDatabase()
  assert.deepEqual(await database.api.selectFrom('plans').selectAll().execute(), [])
  for (const db of [database.api, database.cell]) {
    await assert.rejects(db.deleteFrom('organizations').execute(), /permission denied/)
  }
  await assert.rejects(database.cell.deleteFrom('signing_keys').execute(), /permission denied/)
})
