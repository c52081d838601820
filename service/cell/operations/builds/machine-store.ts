import { sql } from 'kysely'
import type { Db } from '../../../db/database.ts'
import type { Resources } from '../../../db/column-types.ts'

export interface BuildOwner {
  build_id: string
  organization_id: string
  project_id: string
}

/** Writes the row that reserves the machine's capacity, also for the time between two steps. */
export async function grantBuildMachine(
  db: Db,
  { build_id, organization_id, project_id, cell_id, fence, grants }: BuildOwner & { cell_id: string; fence: number; grants: Resources },
): Promise<void> {
  await sql`
    insert into machines (kind, id, workspace_id, organization_id, project_id, cell_id, grant_cpu_millis, grant_memory_mib, grant_disk_gib, epoch, fence)
    values ('build', ${build_id}, null, ${organization_id}, ${project_id}, ${cell_id}, ${grants.cpu_millis}, ${grants.memory_mib},
      ${grants.disk_gib}, 1, ${fence})
    on conflict (kind, id) do update set fence = excluded.fence, cell_id = excluded.cell_id`.execute(db)
}

export async function dropBuildMachine(db: Db, build_id: string): Promise<void> {
  await sql`delete from machines where kind = 'build' and id = ${build_id}`.execute(db)
}

const NOTHING_WORKS = sql`not exists (
    select from operations o where o.subject_kind = 'template_build' and o.subject_id = machines.id and o.completed_at is null)
  and not exists (select from template_captures c where c.id = machines.id and c.state in ('making', 'ready'))`

/** Machines of ended builds, whose process died before it released them. */
export async function listEndedMachines(db: Db, cell_id: string): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select id from machines where kind = 'build' and cell_id = ${cell_id} and ${NOTHING_WORKS}`.execute(db)
  return rows.map(({ id }) => id)
}

/** @param fence of the sweep: the machine of a later attempt has a higher fencing token, and is not dropped */
export async function dropEndedMachine(db: Db, id: string, fence: number): Promise<boolean> {
  const { rows } = await sql`
    delete from machines where kind = 'build' and id = ${id} and fence < ${fence} and ${NOTHING_WORKS} returning id`.execute(db)
  return rows.length > 0
}

export async function findStep(
  db: Db,
  of: { organization_id: string; cell_id: string; key: string },
  now: Date,
): Promise<string | undefined> {
  const { rows } = await sql<{ layer: string }>`
    update template_build_steps set used_at = ${now}
    where organization_id = ${of.organization_id} and cell_id = ${of.cell_id} and key = ${of.key} returning layer`.execute(db)
  return rows[0]?.layer
}

export async function keepStep(
  db: Db,
  { organization_id, cell_id, key, layer }: { organization_id: string; cell_id: string; key: string; layer: string },
  now: Date,
): Promise<void> {
  await sql`
    insert into template_build_steps (organization_id, cell_id, key, layer, used_at) values (${organization_id}, ${cell_id}, ${key}, ${layer}, ${now})
    on conflict (organization_id, cell_id, key) do update set layer = excluded.layer, used_at = excluded.used_at`.execute(db)
}

export async function forgetStep(db: Db, of: { organization_id: string; cell_id: string; key: string }): Promise<void> {
  await sql`delete from template_build_steps where organization_id = ${of.organization_id} and cell_id = ${of.cell_id} and key = ${of.key}`.execute(
    db,
  )
}

export async function isOver(db: Db, operation_id: string): Promise<boolean> {
  const row = await db.selectFrom('operations').select('completed_at').where('id', '=', operation_id).executeTakeFirst()
  return row === undefined || row.completed_at !== null
}
