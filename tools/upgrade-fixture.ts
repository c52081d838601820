// `npm run upgrade-fixture -- VERSION`: stores a populated database in tests/upgrade/VERSION, and marks its migrations as closed.
import { mkdir, writeFile } from 'node:fs/promises'
import { LOCK_FILE, readLock, readMigrations } from '../service/db/migration-files.ts'
import { dumpRows, type Fixture, oldDatabase, readAll, serve } from '../tests/upgrade/fixture.ts'
import { populate } from '../tests/upgrade/populate.ts'

const [version] = process.argv.slice(2)
if (version === undefined || !/^\d+\.\d+\.\d+$/.test(version)) throw new Error('usage: npm run upgrade-fixture -- 1.2.3')

{
  const { w, callers, repeats, service_secret } = await populate()
  await using _ = w
  const rows = await dumpRows(w.database)
  const schema = (await readMigrations()).at(-1)?.name ?? ''
  const fixture: Omit<Fixture, 'answers'> = {
    schema,
    taken_at: w.clock.now().toISOString(),
    callers,
    service_secret: service_secret.toString('hex'),
    repeats,
  }
  await using database = await oldDatabase(schema, rows)
  await using served = await serve(database, fixture)
  const folder = new URL(`../tests/upgrade/${version}/`, import.meta.url)
  await mkdir(folder, { recursive: true })
  await writeFile(new URL('rows.sql', folder), rows)
  const answers = (await readAll(served, callers)).map((seen) => JSON.stringify(seen)).join(',\n')
  await writeFile(new URL('fixture.json', folder), `${JSON.stringify(fixture, null, 1).slice(0, -2)},\n "answers": [\n${answers}\n]}\n`)
  const lock = await readLock()
  await writeFile(LOCK_FILE, `${JSON.stringify({ ...lock, releases: { ...lock.releases, [version]: schema } }, null, 2)}\n`)
}
process.exit() // the PostgreSQL server ends with this process
