import { sql, type RawBuilder } from 'kysely'

/** PostgreSQL reuses the plan for a single id. For a list, whose length is unknown, it plans each time. */
export function oneOf(ids: readonly string[]): RawBuilder<string> {
  return ids.length === 1 ? sql`${ids[0]}::uuid` : sql`any(${ids}::uuid[])`
}
