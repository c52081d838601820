import { sql } from 'kysely'
import type { Db } from '../../service/db/database.ts'
import { until } from './processes.ts'

/** As with a full disk. Reads still work, and so do the cells. */
export async function refusingWrites(superuser: Db, tables: readonly string[]): Promise<{ ended(): Promise<void> }> {
  const triggers = tables.map((table) => `create trigger refuse before insert or update or delete on ${table} execute function refuse()`)
  await sql
    .raw(
      `create sequence refusals; grant usage on sequence refusals to public;
       create function refuse() returns trigger language plpgsql as $$
       begin perform nextval('refusals'); raise exception 'no space' using errcode = '53100'; end $$; ${triggers.join(';')}`,
    )
    .execute(superuser)
  const refused = async () => (await sql<{ n: number }>`select last_value::int as n from refusals`.execute(superuser)).rows[0]?.n ?? 0
  return {
    async ended() {
      await until('writes were refused', 60_000, async () => (await refused()) >= 2)
      const drops = tables.map((table) => `drop trigger refuse on ${table}`)
      await sql.raw(`${drops.join(';')}; drop function refuse; drop sequence refusals`).execute(superuser)
    },
  }
}
