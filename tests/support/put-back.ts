import { sql } from 'kysely'
import type { Db } from '../../service/db/database.ts'

/**
 * Saves every row and the fence sequence, like a dump.
 * @param db a superuser's database
 * @returns a function that restores the saved rows and removes later ones
 */
export async function dumpRows(db: Db): Promise<() => Promise<void>> {
  const schema = `dump_${(await nextFence(db)).toString()}`
  const { rows } = await sql<{ tablename: string }>`select tablename from pg_tables where schemaname = 'public'`.execute(db)
  const tables = rows.map(({ tablename }) => ({ here: sql.id('public', tablename), there: sql.id(schema, tablename) }))
  await sql`create schema ${sql.id(schema)}`.execute(db)
  for (const { here, there } of tables) await sql`create table ${there} as table ${here}`.execute(db)
  const fence = await nextFence(db)
  return () =>
    db.transaction().execute(async (tx) => {
      await sql`set local session_replication_role = replica`.execute(tx) // disables triggers and foreign keys
      for (const { here } of tables) await sql`delete from ${here}`.execute(tx)
      for (const { here, there } of tables) await sql`insert into ${here} select * from ${there}`.execute(tx)
      await sql`select setval('fences', ${fence})`.execute(tx)
    })
}

async function nextFence(db: Db): Promise<number> {
  const { rows } = await sql<{ fence: number }>`select nextval('fences') as fence`.execute(db)
  return rows[0]?.fence ?? 0
}
