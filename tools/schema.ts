// `npm run schema`: writes service/db/migrations.lock.json, and generates service/db/schema.sql and schema.ts from a fresh PostgreSQL.
import { writeFile } from 'node:fs/promises'
import { dumpSchema } from '../service/db/dump.ts'
import { dumpTypes } from '../service/db/dump-types.ts'
import { LOCK_FILE, lockOf, readLock, readMigrationFiles } from '../service/db/migration-files.ts'
import { freshDatabase } from '../tests/support/postgres.ts'

{
  const lock = lockOf(await readMigrationFiles(), await readLock())
  await writeFile(LOCK_FILE, `${JSON.stringify(lock, null, 2)}\n`)
  await using database = await freshDatabase()
  await writeFile(new URL('../service/db/schema.sql', import.meta.url), await dumpSchema(database.superuser))
  await writeFile(new URL('../service/db/schema.ts', import.meta.url), await dumpTypes(database.superuser))
}
process.exit() // the PostgreSQL server ends with this process
