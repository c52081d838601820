import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { Resources } from '../../db/schema.ts'
import { subjectName, type Subject } from '../links/subject.ts'

/** What one organization holds of a cell: by its machines, and by what running operations have set aside for one that is to come. */
export interface Granted extends Resources {
  organization_id: string
  /** Of machines that are not hibernated, reservations among them: so many times what a machine takes beyond its grant. */
  awake: number
}

/** A hibernated machine holds its disk alone. Organizations that hold nothing are left out. */
export async function grantsByOrganization(db: Db, cell_id: string): Promise<Granted[]> {
  const { rows } = await sql<Granted>`
    select organization_id, coalesce(sum(disk_gib), 0)::int as disk_gib,
      coalesce(sum(cpu_millis) filter (where residency <> 'hibernated'), 0)::int as cpu_millis,
      coalesce(sum(memory_mib) filter (where residency <> 'hibernated'), 0)::int as memory_mib,
      (count(*) filter (where residency <> 'hibernated'))::int as awake
    from grants where cell_id = ${cell_id} group by organization_id order by organization_id`.execute(db)
  return rows
}

/**
 * Of these, those that have a row, by name, with the workspace that each is for. A build is for none, and neither is a capture of a template
 * version, whose row is another table's and outlives its machine.
 */
export async function findSubjects(db: Db, subjects: Subject[]): Promise<Map<string, string | null>> {
  if (subjects.length === 0) return new Map()
  const { rows } = await sql<Subject & { workspace_id: string | null }>`
    select m.kind, m.id, m.workspace_id from machines m
    join jsonb_to_recordset(${JSON.stringify(subjects)}::jsonb) as s(kind text, id uuid) using (kind, id)
    union all
    select s.kind, s.id, null from template_captures c
    join jsonb_to_recordset(${JSON.stringify(subjects)}::jsonb) as s(kind text, id uuid) on s.kind = 'build' and s.id = c.id`.execute(db)
  return new Map(rows.map((row) => [subjectName(row), row.workspace_id]))
}
