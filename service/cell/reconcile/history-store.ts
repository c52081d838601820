import { sql } from 'kysely'
import { LIMITS } from '../../../contract/limits.ts'
import type { OperationKind } from '../../../contract/states/operation.ts'
import type { Db } from '../../db/database.ts'

/**
 * Kinds of operations that no other row names. The newest operations are always kept, and with them a workspace's highest fence (decision
 * 70).
 */
const DROPPED: readonly OperationKind[] = [
  'open',
  'suspend',
  'resume',
  'snapshot',
  'restore',
  'reset',
  'adopt',
  'volume_attach',
  'volume_detach',
]
const ROWS = 1000

export async function nextWorkspaces(db: Db, cell_id: string, after: string | null, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('workspaces')
    .select('id')
    .where('cell_id', '=', cell_id)
    .where('observed_state', '<>', 'deleted')
    .where((e) => (after === null ? e.lit(true) : e('id', '>', after)))
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map(({ id }) => id)
}

/** @returns whether more old operations may exist. */
export async function dropOldOperations(db: Db, workspace_ids: readonly string[], before: Date): Promise<boolean> {
  const { numAffectedRows = 0n } = await sql`
    delete from operations where ctid = any(array(
      select o.ctid from unnest(${workspace_ids}::uuid[]) s(id) cross join lateral (
        select o.ctid, o.kind, o.completed_at from operations o where o.workspace_id = s.id
        order by uuid_send(o.id) desc offset ${LIMITS.workspace.operations_kept}
      ) o
      where o.completed_at < ${before} and o.kind = any(${[...DROPPED]}) limit ${ROWS}))`.execute(db)
  return numAffectedRows === BigInt(ROWS)
}

export async function dropOldAgentSessions(db: Db, workspace_ids: readonly string[], before: Date): Promise<boolean> {
  const { numAffectedRows = 0n } = await sql`
    delete from agent_sessions where id = any(array(
      select a.id from unnest(${workspace_ids}::uuid[]) s(id) cross join lateral (
        select a.id, a.last_used_at from agent_sessions a where a.workspace_id = s.id
        order by uuid_send(a.id) desc offset ${LIMITS.workspace.agent_sessions_kept}
      ) a
      where a.last_used_at < ${before} limit ${ROWS}))`.execute(db)
  return numAffectedRows === BigInt(ROWS)
}
