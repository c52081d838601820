import { sql, type RawBuilder } from 'kysely'

/**
 * What a column of ids is compared with, by `=`, to be one of these. PostgreSQL keeps the plan of a statement for one id; for a list,
 * of which it cannot know the length ahead, it plans each time anew.
 */
export function oneOf(ids: readonly string[]): RawBuilder<string> {
  return ids.length === 1 ? sql`${ids[0]}::uuid` : sql`any(${ids}::uuid[])`
}
