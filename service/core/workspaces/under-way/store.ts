import { sql, type RawBuilder } from 'kysely'
import type { Db } from '../../../db/database.ts'
import type { WorkKindName } from './kinds.ts'

export interface RowUnderWay {
  id: string
  since: Date
}

const AT_ONCE = 100

/** @param cell_id null: work of the api. */
export async function readOverdue(db: Db, cell_id: string | null, name: WorkKindName, before: Date): Promise<RowUnderWay[]> {
  const { rows } = await sql<RowUnderWay>`
    select id, since from (${READ[name](cell_id)}) as u where since < ${before} order by since limit ${AT_ONCE}`.execute(db)
  return rows
}

const READ: Record<WorkKindName, (cell_id: string | null) => RawBuilder<unknown>> = {
  execution: (cell_id) => sql`
    select execution_id as id, created_at as since from executions where cell_id = ${cell_id} and finished_at is null`,
  operation: (cell_id) => sql`
    select id::text, created_at as since from operations where completed_at is null and subject_kind = 'workspace' and cell_id = ${cell_id}`,
  template_build: (cell_id) => sql`
    select id::text, created_at as since from operations where completed_at is null and subject_kind = 'template_build' and cell_id = ${cell_id}`,
  build_machine: (cell_id) => sql`
    select m.id::text, coalesce(b.created_at, c.updated_at) as since from machines m
    left join template_builds b on b.id = m.id left join template_captures c on c.id = m.id
    where m.kind = 'build' and m.cell_id = ${cell_id}`,
  build_capture: (cell_id) => sql`
    select c.id::text, b.created_at as since from checkpoints c join template_builds b on b.capture_operation_id = c.operation_id
    where c.cell_id = ${cell_id} and c.kind = 'layer' and c.expires_at is null and c.deleted_at is null`,
  volume: (cell_id) => sql`
    select id::text, updated_at as since from volumes where cell_id = ${cell_id} and state in ('creating', 'deleting')`,
  attachment: (cell_id) => sql`
    select a.id::text, a.updated_at as since from volume_attachments a join workspaces w on w.id = a.workspace_id
    where w.cell_id = ${cell_id} and a.state <> 'attached' and a.operation_id is not null`,
  startup: (cell_id) => sql`
    select id::text, updated_at as since from workspaces
    where cell_id = ${cell_id} and observed_state = 'running' and startup ->> 'state' = 'running'`,
  warm_capture: (cell_id) => sql`
    select id::text, updated_at as since from template_captures where cell_id = ${cell_id} and state = 'making'`,
  layer_list: () => sql`select layer as id, updated_at as since from layer_lists where state = 'wanted'`,
  organization_deletion: () => sql`
    select id::text, created_at as since from operations where completed_at is null and subject_kind = 'organization'`,
  export: () => sql`select id::text, created_at as since from exports where state in ('queued', 'running')`,
  pushed_invoice: () => sql`
    select i.id::text, i.issued_at as since from payment_invoices p join invoices i on i.id = p.invoice_id where p.settled_at is null`,
}
