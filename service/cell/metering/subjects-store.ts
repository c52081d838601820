import { sql } from 'kysely'
import type { Subject } from '../../../contract/internal/host-subject.ts'
import type { Db } from '../../db/database.ts'
import { subjectName } from '../host/subject.ts'

/**
 * @returns the known subjects by name, with their workspace; null: a build or a capture. A capture's row still exists after its machine.
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
