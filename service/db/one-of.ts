import { sql, type RawBuilder } from 'kysely'

/** PostgreSQL keeps the plan for a single id; for a list, whose length it cannot know, it plans each time. */
export function oneOf(ids: readonly string[]): RawBuilder<string> {
  return ids.length === 1 ? sql`${ids[0]}::uuid` : sql`any(${ids}::uuid[])`
}
