import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'

export interface PortBytes {
  workspace_id: string
  received_bytes: number
  sent_bytes: number
}

/** No machine's counters include these bytes. A caller without a response must not repeat the call: they may have been added. */
export async function addPortBytes(db: Db, counts: PortBytes[], now: Date): Promise<number> {
  if (counts.length === 0) return 0
  const { rows } = await sql`
    with counted as (
      select workspace_id, sum(received_bytes)::bigint as received_bytes, sum(sent_bytes)::bigint as sent_bytes
      from jsonb_to_recordset(${JSON.stringify(counts)}::jsonb) as c(workspace_id uuid, received_bytes bigint, sent_bytes bigint)
      group by workspace_id
    )
    insert into usage_samples as u (workspace_id, hour, organization_id, project_id, port_received_bytes, port_sent_bytes)
    select w.id, date_trunc('hour', ${now}::timestamptz, 'UTC'), w.organization_id, w.project_id, c.received_bytes, c.sent_bytes
    from counted c join workspaces w on w.id = c.workspace_id order by w.id
    on conflict (workspace_id, hour, organization_id, project_id) do update set
      port_received_bytes = u.port_received_bytes + excluded.port_received_bytes,
      port_sent_bytes = u.port_sent_bytes + excluded.port_sent_bytes, is_open = true
    returning u.workspace_id`.execute(db)
  return rows.length
}
