import { sql } from 'kysely'
import { decide } from '../../../contract/states/commands.ts'
import { admitStart } from '../../core/money/admission/store.ts'
import { serviceOrigin } from '../../core/changes/audit.ts'
import { mutate, type ChangeTx } from '../../core/changes/mutate.ts'
import { beginOperation } from '../../core/workspaces/operations/begin.ts'
import type { Db } from '../../db/database.ts'
import type { Ids } from '../../lib/ids.ts'

/** begun: an operation that resumes the workspace has begun, by this call or another. */
export type Resumed = 'begun' | 'failed'

export const FAILED_SECONDS = 10

/** Resumes a workspace for a visitor (Cell, "Port-exposed workspaces"). */
export async function resumeForVisitor(
  { db, ids }: { db: Db; ids: Ids },
  { workspace_id, port }: { workspace_id: string; port: number },
  now: Date,
): Promise<Resumed> {
  const work = async (tx: ChangeTx) => {
    await sql`select 1 from workspaces where id = ${workspace_id} for no key update`.execute(tx)
    const row = await readSuspended(tx, workspace_id)
    if (row === undefined) return { row: null, resumed: 'begun' as const } // another operation has begun; the visitor checks again
    const { observed_state, mode, lifetime } = row
    const decision = decide({ observed_state, deleted: false, mode, lifetime, held_by: null }, 'resume')
    if (decision.kind !== 'operate') return { row: null, resumed: 'begun' as const }
    if (await hasFailed(tx, workspace_id, new Date(now.getTime() - FAILED_SECONDS * 1000))) return { row: null, resumed: 'failed' as const }
    await admitStart(tx, row.organization_id, row.id)
    await beginOperation({ ids }, tx, row, decision, { cell_id: row.cell_id, now })
    return { row, resumed: 'begun' as const }
  }
  const { resumed } = await mutate(db, serviceOrigin('cell', { ids, now }), 'workspaces.resume', work, ({ row }) => {
    if (row === null) return null
    const { id, organization_id, project_id } = row
    return { kind: 'workspace', id, organization_id, project_id, details: { reason: 'port_request', port } }
  })
  return resumed
}

function readSuspended(tx: ChangeTx, workspace_id: string) {
  return tx
    .selectFrom('workspaces as w')
    .leftJoin('workspace_holds as h', 'h.workspace_id', 'w.id')
    .select(['w.id', 'w.organization_id', 'w.project_id', 'w.cell_id', 'w.observed_state', 'w.mode', 'w.lifetime'])
    .where('w.id', '=', workspace_id)
    .where('w.observed_state', '=', 'suspended')
    .where('w.deleted_at', 'is', null)
    .where('h.operation_id', 'is', null)
    .executeTakeFirst()
}

async function hasFailed(tx: ChangeTx, workspace_id: string, since: Date): Promise<boolean> {
  const failed = await tx
    .selectFrom('operations')
    .select('id')
    .where('workspace_id', '=', workspace_id)
    .where('kind', '=', 'resume')
    .where('state', '=', 'failed')
    .where('completed_at', '>=', since)
    .limit(1)
    .executeTakeFirst()
  return failed !== undefined
}
