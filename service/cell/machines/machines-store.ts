import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { Resources } from '../../db/schema.ts'
import { subjectName, type Subject } from '../host/subject.ts'

/** Grants of an organization on a cell: of its machines, and of reservations by running operations. */
export interface Granted extends Resources {
  organization_id: string
  /** Machines and reservations that are not hibernated: each takes headroom beyond its grant. */
  awake: number
}

/** A hibernated machine counts with its disk alone. Organizations without grants are left out. */
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
 * Returns the subjects that have a row, by name, each with its workspace; null: a build, or a capture of a template version. A capture's
 * row
 * is in another table and outlives the machine.
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
