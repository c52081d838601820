import { sql } from 'kysely'
import type { Db } from '../../../db/database.ts'
import type { Reader, Tx } from '../../../db/reader.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'

export interface OrganizationDeletion {
  operation_id: string
  organization_id: string
  state: 'queued' | 'running'
  state_reason: string | null
  requested_by: string
  request_id: string | null
}

const ENDINGS_MAX = 100

/** In random order, so that one unreachable host does not block the other organizations. */
export function listEndings(reads: Reader): Promise<OrganizationDeletion[]> {
  return reads.rows(
    'organizations.endings',
    `select id as operation_id, organization_id, state, state_reason, input ->> 'requested_by' as requested_by, input ->> 'request_id' as request_id
     from operations where completed_at is null and subject_kind = 'organization' order by random() limit ${ENDINGS_MAX}`,
    [],
  )
}

export interface RemainingObjects {
  builds: string[]
  workspaces: string[]
  workspaces_left: number
  volumes: string[]
  volumes_left: number
  secrets: string[]
}

const AT_ONCE = 100

export async function readRemainingObjects(reads: Reader, organization_id: string): Promise<RemainingObjects> {
  const [row] = await reads.rows<RemainingObjects>(
    'organizations.left',
    `select
       array(select b.id from template_builds b join operations o on o.id = b.operation_id
         where b.organization_id = $1 and o.completed_at is null order by b.id limit ${AT_ONCE}) as builds,
       array(select id from workspaces where organization_id = $1 and deleted_at is null order by id limit ${AT_ONCE}) as workspaces,
       (select count(*)::int from workspaces where organization_id = $1 and observed_state <> 'deleted') as workspaces_left,
       array(select id from volumes where organization_id = $1 and deleted_at is null order by id limit ${AT_ONCE}) as volumes,
       (select count(*)::int from volumes where organization_id = $1 and state <> 'deleted') as volumes_left,
       array(select id from secrets where organization_id = $1 and deleted_at is null order by id limit ${AT_ONCE}) as secrets`,
    [organization_id],
  )
  return row ?? { builds: [], workspaces: [], workspaces_left: 0, volumes: [], volumes_left: 0, secrets: [] }
}

export async function noteProgress(db: Db, operation_id: string, state_reason: string, now: Date): Promise<void> {
  await db
    .updateTable('operations')
    .set({ state: 'running', state_reason, updated_at: now, started_at: sql<Date>`coalesce(started_at, ${now})` })
    .where('id', '=', operation_id)
    .where('completed_at', 'is', null)
    .where((e) => e.or([e('state', '=', 'queued'), e(sql`coalesce(state_reason, '')`, '!=', state_reason)]))
    .execute()
}

/** @returns false if the operation had ended before. */
export async function succeed(tx: ChangeTx, operation_id: string, result: object, now: Date): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('operations')
    .set({ state: 'succeeded', state_reason: null, result: JSON.stringify(result), updated_at: now, completed_at: now })
    .where('id', '=', operation_id)
    .where('completed_at', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

export async function countEnded(tx: Tx, organization_id: string): Promise<{ workspaces: number; volumes: number; secrets: number }> {
  const { rows } = await sql<{ workspaces: number; volumes: number; secrets: number }>`select
    (select count(*)::int from workspaces where organization_id = ${organization_id}) as workspaces,
    (select count(*)::int from volumes where organization_id = ${organization_id}) as volumes,
    (select count(*)::int from secrets where organization_id = ${organization_id}) as secrets`.execute(tx)
  return rows[0] ?? { workspaces: 0, volumes: 0, secrets: 0 }
}
