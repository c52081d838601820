import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'

/** What visitors of a workspace's ports and the workspace exchanged since it was last told. */
export interface PortBytes {
  workspace_id: string
  /** From visitors into the workspace. */
  received_bytes: number
  /** Back to visitors: egress of the workspace. */
  sent_bytes: number
}

/**
 * Adds bytes of port traffic to the hour of `now`, kept apart from what the guest exchanged by itself. A machine's own counters have none
 * of them: port traffic comes from its host. Unlike counters these are increments, and are told at most once: who gets
 * no answer does not know whether they were added, and must not tell them again.
 * @returns how many workspaces there are of those that were named.
 */
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
