import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { freshDatabase } from '../../tests/support/postgres.ts'
import { openDatabase } from './database.ts'

test('a connection keeps short statements with values prepared, except with all columns or long lists', async () => {
  await using database = await freshDatabase()
  const db = openDatabase({ ...database.options('berth_api'), connections_max: 1 })
  try {
    const ids = (count: number) => Array.from({ length: count }, () => 'a')
    for (const slug of ['a', 'b']) await sql`select slug from plans where slug = ${slug}`.execute(db)
    await sql`select slug from plans where slug = any(${ids(3)})`.execute(db)
    await sql`select count(slug) from plans where slug = any(${ids(101)})`.execute(db)
    await db.selectFrom('plans').selectAll().where('slug', '=', 'a').execute()
    const { rows } = await sql<{ statement: string }>`select statement from pg_prepared_statements order by statement`.execute(db)
    assert.deepEqual(
      rows.map(({ statement }) => statement),
      ['select slug from plans where slug = $1', 'select slug from plans where slug = any($1)'],
    )
  } finally {
    await db.destroy()
  }
})
