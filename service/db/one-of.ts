import { sql, type RawBuilder } from 'kysely'

/**
 * Compares a single id without a list: PostgreSQL reuses the plan of a single id, but plans each time for a list, whose length is unknown.
 */
export function oneOf(ids: readonly string[]): RawBuilder<string> {
  return ids.length === 1 ? sql`${ids[0]}::uuid` : sql`any(${ids}::uuid[])`
}
