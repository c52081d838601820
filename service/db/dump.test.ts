import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { freshDatabase } from '../../tests/support/postgres.ts'
import { dumpSchema } from './dump.ts'

test('schema.sql equals the result of the migrations', async () => {
  await using database = await freshDatabase()
  const kept = await readFile(new URL('./schema.sql', import.meta.url), 'utf8')
  assert.equal(await dumpSchema(database.superuser), kept, 'run `npm run schema` and commit service/db/schema.sql')
})
