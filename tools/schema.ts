// `npm run schema`: writes service/db/schema.sql from the migrations, on a PostgreSQL of its own.
import { writeFile } from 'node:fs/promises'
import { dumpSchema } from '../service/db/dump.ts'
import { freshDatabase } from '../tests/support/postgres.ts'

{
  await using database = await freshDatabase()
  await writeFile(new URL('../service/db/schema.sql', import.meta.url), await dumpSchema(database.superuser))
}
process.exit() // the server that was started ends with this process
