import { sql } from 'kysely'
import type { Process, World } from '../engine/world.ts'

export async function everything(world: World, process: Process | null): Promise<object> {
  const { db, host, clock } = world
  const id = (name: string) => sql`right(${sql.ref(name)}::text, 4)`
  const { rows: grants } = await sql`select kind, ${id('id')} as id, residency, memory_mib, is_reserved from grants`.execute(db)
  const { rows: holds } = await sql`
    select ${id('h.workspace_id')} as workspace, h.gate, o.kind, o.state, o.step, ${id('o.source_workspace_id')} as source
    from workspace_holds h join operations o on o.id = h.operation_id`.execute(db)
  const machines = (await host.inventory()).machines.map(({ subject, state, fence, epoch }) => [subject.id.slice(-4), state, fence, epoch])
  const now = clock.now()
  const waiting = process?.room.waiting().map(({ id, since, memory_mib, disk_gib, is_call }) => {
    return { id: id.slice(-4), memory_mib, disk_gib, is_call, waited_ms: now.getTime() - since.getTime() }
  })
  return { now, grants, holds, machines, waiting, engine: process?.engine.state(), known: known(process) }
}

/** @returns null if nothing is in progress */
export async function unrest(world: World, process: Process | null): Promise<unknown> {
  if (process?.engine.isReady() !== true) return 'the engine is not ready'
  const operations = await world.db.selectFrom('operations').selectAll().where('completed_at', 'is', null).execute()
  const moving = process.parking.inTransition()
  return operations.length === 0 && moving.length === 0 ? null : { operations, moving }
}

export function known(process: Process | null): unknown {
  const { parking, table } = process ?? {}
  return table?.known().map(({ id, observed_state, residency, hold, machine }) => {
    return { id: id.slice(-4), observed_state, residency, hold, machine, save_failed: parking?.saveFailed(id) }
  })
}
