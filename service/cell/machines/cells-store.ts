import type { Db } from '../../db/database.ts'
import type { Inventory } from '../host/hostd.ts'

export async function registerCell(db: Db, cell: { id: string; name: string; endpoint: string }, now: Date): Promise<string> {
  await db
    .insertInto('cells')
    .values({
      ...cell,
      engine: null,
      capacity_cpu_millis: null,
      capacity_memory_mib: null,
      capacity_disk_gib: null,
      created_at: now,
      seen_at: null,
    })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .execute()
  const { id } = await db.selectFrom('cells').select('id').where('name', '=', cell.name).executeTakeFirstOrThrow()
  return id
}

export async function describeCell(db: Db, cell_id: string, endpoint: string, { engine, capacity }: Inventory, now: Date): Promise<void> {
  await db
    .updateTable('cells')
    .set({
      endpoint,
      engine,
      capacity_cpu_millis: capacity.cpu_millis,
      capacity_memory_mib: capacity.memory_mib,
      capacity_disk_gib: capacity.disk_gib,
      seen_at: now,
    })
    .where('id', '=', cell_id)
    .execute()
}

export async function markSeen(db: Db, cell_id: string, now: Date): Promise<void> {
  await db.updateTable('cells').set({ seen_at: now }).where('id', '=', cell_id).execute()
}
