import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { readerOf } from '../../db/reader.ts'
import { migrate } from '../../db/migrate.ts'
import { isUuid } from '../../lib/ids.ts'
import { freshDatabase } from '../../../tests/support/postgres.ts'
import { readInstallationId } from './store.ts'

test('a database has one installation id, read-only to both processes; a recreated database has another', async () => {
  await using database = await freshDatabase()
  const id = await readInstallationId(readerOf(database.api))
  assert.ok(isUuid(id))
  assert.equal(await readInstallationId(readerOf(database.cell)), id)
  for (const db of [database.api, database.cell]) {
    await assert.rejects(sql`update installation set id = gen_random_uuid()`.execute(db), /permission denied/)
    await assert.rejects(sql`insert into installation default values`.execute(db), /permission denied/)
  }
  await assert.rejects(sql`insert into installation default values`.execute(database.superuser), /duplicate key/)
  await migrate(database.url)
  assert.equal(await readInstallationId(readerOf(database.api)), id)
  await sql`drop schema public cascade`.execute(database.superuser)
  await sql`create schema public`.execute(database.superuser)
  await sql`grant usage on schema public to public`.execute(database.superuser)
  await migrate(database.url)
  assert.notEqual(await readInstallationId(readerOf(database.api)), id)
})
