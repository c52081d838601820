import { sql } from 'kysely'
import type { Db } from '../../service/db/database.ts'

/** Tables whose changes are no effects of a request. */
const NOT_EFFECTS = new Set(['idempotency_entries', 'rate_buckets', 'api_key_uses'])

/** Digests of tables: equal results mean that nothing was written. */
export async function contentOfTables(db: Db, apart: readonly string[] = []): Promise<Record<string, string>> {
  const { rows } = await sql<{ name: string }>`
    select table_name as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE' order by 1`.execute(
    db,
  )
  const content: Record<string, string> = {}
  for (const { name } of rows.filter((row) => !NOT_EFFECTS.has(row.name) && !apart.includes(row.name))) {
    const read = await sql<{ content: string }>`
      select count(*) || ' ' || coalesce(md5(string_agg(t::text, ',' order by t::text)), '') as content from ${sql.table(name)} t`.execute(
      db,
    )
    content[name] = read.rows[0]?.content ?? ''
  }
  return content
}
