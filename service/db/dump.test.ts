import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { freshDatabase } from '../../tests/support/postgres.ts'
import { dumpSchema } from './dump.ts'
import { dumpTypes } from './dump-types.ts'

for (const [name, dump] of Object.entries({ 'schema.sql': dumpSchema, 'schema.ts': dumpTypes })) {
  test(`${name} equals the result of the migrations`, async () => {
    await using database = await freshDatabase()
    const kept = await readFile(new URL(`./${name}`, import.meta.url), 'utf8')
    assert.equal(await dump(database.superuser), kept, `run \`npm run schema\` and commit service/db/${name}`)
  })
}
