import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'

/** Memory and disk that are charged for a machine on a tree. */
export interface OnTree {
  memory_bytes: number
  disk_bytes: number
}

export async function readOnTrees(db: Db, workspace_ids: readonly string[]): Promise<Map<string, OnTree>> {
  if (workspace_ids.length === 0) return new Map()
  const { rows } = await sql<{ id: string } & OnTree>`
    select w.id, w.ceiling_memory_mib::bigint * 1048576 as memory_bytes, coalesce(t.bytes, 0) as disk_bytes
    from workspaces w left join trees t on t.workspace_id = w.id where w.id = any(${workspace_ids}::uuid[])`.execute(db)
  return new Map(rows.map(({ id, memory_bytes, disk_bytes }) => [id, { memory_bytes, disk_bytes }]))
}
