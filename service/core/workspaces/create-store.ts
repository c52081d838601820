import { type Insertable, sql } from 'kysely'
import type { ChangeTx } from '../changes/mutate.ts'
import type { Resources, StartupState } from '../../db/column-types.ts'
import type { Database } from '../../db/schema.ts'
import { holdRows, operationRow, throwUnlessLocked, type NewOperation } from './operations/store.ts'

interface Owner {
  organization_id: string
  project_id: string
}

/**
 * @param freed the deleted workspace that released the key; null: a new key.
 * @returns false if another transaction took the key.
 */
export async function assignWorkspaceKey(
  tx: ChangeTx,
  { organization_id, project_id }: Owner,
  key: string,
  workspace_id: string,
  freed: string | null,
): Promise<boolean> {
  if (freed === null) {
    const { numInsertedOrUpdatedRows } = await tx
      .insertInto('workspace_keys')
      .values({ organization_id, project_id, key, workspace_id })
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst()
    return numInsertedOrUpdatedRows === 1n
  }
  const { numUpdatedRows } = await tx
    .updateTable('workspace_keys')
    .set({ project_id, workspace_id, reusable: false })
    .where('organization_id', '=', organization_id)
    .where('key', '=', key)
    .where('workspace_id', '=', freed)
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

export interface NewWorkspace extends Owner {
  id: string
  key: string
  template_version_id: string
  observed_state: 'creating' | 'forking' | 'running'
  lifetime: 'persistent' | 'session'
  mode: 'processful' | 'file_first'
  purpose: 'standard' | 'template_draft' | 'template_test'
  origin: object | null
  disk_layout: 'legacy' | 'layered'
  caps: Partial<Resources>
  ceilings: Resources
  inputs: Record<string, string>
  startup: StartupState | null
  cell_id: string | null
  idle_policy: string | null
  background_seconds: number | null
  draft_state_id?: string | null
  /** null: the layers of the template version. */
  state_layers?: string[] | null
  /** The root of a fork's chain of forks. */
  family_id?: string
  now: Date
}

function workspaceRow({ now, caps, ceilings, inputs, origin, startup, ...columns }: NewWorkspace): Insertable<Database['workspaces']> {
  return {
    ...columns,
    desired_state: 'running',
    pending_reason: null,
    ended_reason: null,
    origin: origin === null ? null : JSON.stringify(origin),
    caps: JSON.stringify(caps),
    ceiling_cpu_millis: ceilings.cpu_millis,
    ceiling_memory_mib: ceilings.memory_mib,
    ceiling_disk_gib: ceilings.disk_gib,
    grant_cpu_millis: null,
    grant_memory_mib: null,
    grant_disk_gib: null,
    inputs: JSON.stringify(inputs),
    startup: startup === null ? null : JSON.stringify(startup),
    tree_revision: columns.mode === 'file_first' ? 0 : null,
    disk: null,
    checkpoint_id: null,
    active_at: now,
    tool_call_at: null,
    busy_until: null,
    keepalive_until: null,
    suspend_requested_at: null,
    suspend_after_seconds: null,
    suspend_not_before: null,
    tokens_revoked_before: null,
    created_at: now,
    updated_at: now,
    deleted_at: null,
  }
}

/**
 * A fork locks its source too, unless it joins another fork's capture.
 * @throws StaleReadError if another operation locks the source.
 */
export async function insertFirstOperation(tx: ChangeTx, workspace: NewWorkspace, operation: NewOperation): Promise<void> {
  const source = operation.joins ? undefined : operation.source_workspace_id
  const held = [operation.workspace_id, source].filter((id) => id !== undefined && id !== null)
  const hold = { workspace_ids: held, gate: 'closed' } as const
  const { numInsertedOrUpdatedRows } = await tx
    .with('workspace', (query) => query.insertInto('workspaces').values(workspaceRow(workspace)))
    .with('operation', (query) => query.insertInto('operations').values(operationRow(tx, operation)))
    .insertInto('workspace_holds')
    .values(holdRows(operation, hold))
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  throwUnlessLocked(numInsertedOrUpdatedRows, hold)
}

/** The workspace runs at once, with an empty tree at revision 0 and no operation (App, "Open rules" 8). */
export async function insertTreeWorkspace(
  tx: ChangeTx,
  workspace: NewWorkspace & { mode: 'file_first'; observed_state: 'running' },
): Promise<void> {
  const { id: workspace_id, now } = workspace
  await tx.insertInto('workspaces').values(workspaceRow(workspace)).execute()
  await tx.insertInto('trees').values({ workspace_id, root: null, created_at: now, updated_at: now }).execute()
}

/**
 * The fork's tree shares the contents of its source. `tree_revision` null: the current revision.
 * The lock prevents the cell from collecting the revision (service/cell/filetree/trees/collect-store.ts).
 * @returns false if the revision no longer exists. The workspace's row may be written, so the caller must roll back.
 */
export async function insertTreeFork(
  tx: ChangeTx,
  workspace: NewWorkspace & { mode: 'file_first'; observed_state: 'running' },
  source: { workspace_id: string; tree_revision: number | null },
): Promise<boolean> {
  const { id, now } = workspace
  const tree = await tx
    .selectFrom('trees')
    .select(['workspace_id', 'store_id'])
    .where('workspace_id', '=', source.workspace_id)
    .executeTakeFirst()
  if (tree === undefined) return false
  const store_id = tree.store_id ?? tree.workspace_id
  await sql`select pg_advisory_xact_lock_shared(hashtextextended(${`tree store ${store_id}`}, 0))`.execute(tx)
  await tx.insertInto('workspaces').values(workspaceRow(workspace)).execute()
  const { numAffectedRows } = await sql`
    insert into trees (workspace_id, store_id, root, entries, bytes, created_at, updated_at)
    select ${id}, ${store_id}, root, coalesce(entries, 0), coalesce(bytes, 0), created_at, ${now} from (
      select revision, root, entries, bytes, created_at from trees where workspace_id = ${source.workspace_id}
      union all
      select r.revision, r.root, r.entries, r.bytes, t.created_at from tree_revisions r join trees t using (workspace_id)
      where r.workspace_id = ${source.workspace_id}
      order by revision desc
    ) kept
    where ${source.tree_revision}::bigint is null or revision = ${source.tree_revision}::bigint
    order by revision desc limit 1`.execute(tx)
  return numAffectedRows === 1n
}
