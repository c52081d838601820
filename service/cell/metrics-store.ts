import { sql } from 'kysely'
import type { Db } from '../db/database.ts'

export interface CountedState {
  state: string
  count: number
}

export interface OpenOperations {
  kind: string
  state: string
  count: number
  oldest_at: Date
}

export interface EndedOperation {
  id: string
  kind: string
  outcome: string
  seconds: number
  completed_at: Date
}

export async function countWorkspaces(db: Db, cell_id: string): Promise<CountedState[]> {
  const { rows } = await sql<CountedState>`
    select observed_state as state, count(*)::integer as count from workspaces
    where cell_id = ${cell_id} and deleted_at is null group by 1`.execute(db)
  return rows
}

export async function readOpenOperations(db: Db): Promise<OpenOperations[]> {
  const { rows } = await sql<OpenOperations>`
    select kind, state, count(*)::integer as count, min(created_at) as oldest_at from operations
    where completed_at is null group by 1, 2`.execute(db)
  return rows
}

/**
 * Reads operations that ended after a time, among those with `first_id` or later. Ids grow with time, so the primary key limits the search.
 */
export async function readEndedOperations(
  db: Db,
  cell_id: string,
  first_id: string,
  ended_after: Date,
  limit: number,
): Promise<EndedOperation[]> {
  const { rows } = await sql<EndedOperation>`
    select id, kind, state as outcome, completed_at, extract(epoch from completed_at - created_at)::float8 as seconds from operations
    where id >= ${first_id}::uuid and completed_at >= ${ended_after} and (cell_id = ${cell_id} or cell_id is null)
    order by id limit ${limit}`.execute(db)
  return rows
}
