import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'

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
export async function readTreeBytes(db: Db, cell_id: string): Promise<Map<string, number>> {
  const rows = await db
    .selectFrom('trees as t')
    .innerJoin('workspaces as w', 'w.id', 't.workspace_id')
    .select(['t.workspace_id', 't.bytes'])
    .where('w.cell_id', '=', cell_id)
    .where('w.deleted_at', 'is', null)
    .execute()
  return new Map(rows.map(({ workspace_id, bytes }) => [workspace_id, bytes]))
}
