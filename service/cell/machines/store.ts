import { sql } from 'kysely'
import type { ObservedState } from '../../../contract/states/machine.ts'
import { OPERATION_KINDS } from '../../../contract/states/operation.ts'
import type { Db } from '../../db/database.ts'
import { oneOf } from '../../db/one-of.ts'
import type { Resources } from '../../db/column-types.ts'
import type { Background } from './residency-rules.ts'
import type { Hold } from './table.ts'

export interface EntryRow {
  id: string
  organization_id: string
  project_id: string
  observed_state: ObservedState
  desired_state: 'running' | 'suspended' | 'deleted'
  ownership_epoch: number
  lifetime: 'persistent' | 'session'
  mode: 'processful' | 'file_first'
  disk_layout: 'legacy' | 'layered'
  deleted_at: Date | null
  cell_id: string | null
  hold: Hold | null
  checkpoint_id: string | null
  layers: string[]
  tokens_revoked_before: Date | null
  template_env: Record<string, string>
  inputs: Record<string, string>
  has_secrets: boolean
  grants: Resources | null
  residency: 'resident' | 'hibernated' | 'restoring'
  active_at: Date
  keepalive_until: Date | null
  background: Background | null
  suspend_requested_at: Date | null
}

const entries = (db: Db) =>
  db
    .selectFrom('workspaces as w')
    .innerJoin('template_versions as v', 'v.id', 'w.template_version_id')
    .leftJoin('workspace_holds as h', 'h.workspace_id', 'w.id')
    .leftJoin('operations as o', 'o.id', 'h.operation_id')
    .select((e) =>
      e.exists(e.selectFrom('workspace_secrets as s').select('s.name').whereRef('s.workspace_id', '=', 'w.id')).as('has_secrets'),
    )
    .select([
      'w.id',
      'w.organization_id',
      'w.project_id',
      'w.observed_state',
      'w.desired_state',
      'w.ownership_epoch',
      'w.lifetime',
      'w.mode',
      'w.disk_layout',
      'w.deleted_at',
      'w.cell_id',
      'w.tokens_revoked_before',
      'w.checkpoint_id',
      'w.state_layers',
      'v.layers',
      'w.inputs',
      'w.grant_cpu_millis',
      'w.grant_memory_mib',
      'w.grant_disk_gib',
      'w.residency',
      'w.active_at',
      'w.keepalive_until',
      'w.background_seconds',
      'w.suspend_requested_at',
      'v.settings',
      'h.operation_id',
      'h.gate',
      'o.kind',
    ])

export async function readEntries(db: Db, workspace_ids: string[]): Promise<EntryRow[]> {
  const rows = await entries(db).where('w.id', '=', oneOf(workspace_ids)).execute()
  return rows.map((row) => ({
    id: row.id,
    organization_id: row.organization_id,
    project_id: row.project_id,
    observed_state: row.observed_state,
    desired_state: row.desired_state,
    ownership_epoch: row.ownership_epoch,
    lifetime: row.lifetime,
    mode: row.mode,
    disk_layout: row.disk_layout,
    deleted_at: row.deleted_at,
    cell_id: row.cell_id,
    hold:
      row.operation_id === null || row.gate === null
        ? null
        : { operation_id: row.operation_id, operation_kind: OPERATION_KINDS.find((kind) => kind === row.kind), gate: row.gate },
    checkpoint_id: row.checkpoint_id,
    layers: row.state_layers ?? row.layers,
    tokens_revoked_before: row.tokens_revoked_before,
    template_env: envOf(row.settings),
    inputs: row.inputs,
    has_secrets: row.has_secrets === true,
    grants:
      row.grant_cpu_millis === null || row.grant_memory_mib === null || row.grant_disk_gib === null
        ? null
        : { cpu_millis: row.grant_cpu_millis, memory_mib: row.grant_memory_mib, disk_gib: row.grant_disk_gib },
    residency: row.residency,
    active_at: row.active_at,
    keepalive_until: row.keepalive_until,
    background: backgroundOf(row.background_seconds, row.settings),
    suspend_requested_at: row.suspend_requested_at,
  }))
}

function backgroundOf(own_seconds: number | null, settings: object): Background | null {
  if (own_seconds !== null) return { seconds: own_seconds, by: 'workspace' }
  const defaults = 'defaults' in settings && typeof settings.defaults === 'object' ? settings.defaults : null
  const seconds = defaults !== null && 'background_seconds' in defaults ? defaults.background_seconds : undefined
  return typeof seconds === 'number' ? { seconds, by: 'template' } : null
}

function envOf(settings: object): Record<string, string> {
  return 'env' in settings && typeof settings.env === 'object' && settings.env !== null ? (settings.env as Record<string, string>) : {}
}

export async function residentIds(db: Db, cell_id: string): Promise<string[]> {
  const rows = await db
    .selectFrom('workspaces')
    .select('id')
    .where('cell_id', '=', cell_id)
    .where('observed_state', 'in', ['running', 'suspending'])
    .execute()
  return rows.map(({ id }) => id)
}

export interface Activity {
  workspace_id: string
  active_at: Date
  tool_call_at: Date | null
  keepalive_until: Date | null
}

/** Writes the latest times only: an older report cannot overwrite a newer one. */
export async function writeActivity(db: Db, activity: Activity[]): Promise<void> {
  const column = (pick: (one: Activity) => Date | null) => activity.map((one) => pick(one)?.toISOString() ?? null)
  await sql`
    update workspaces w set
      active_at = greatest(w.active_at, v.active_at),
      tool_call_at = greatest(w.tool_call_at, v.tool_call_at),
      keepalive_until = greatest(w.keepalive_until, v.keepalive_until)
    from unnest(
      ${activity.map((one) => one.workspace_id)}::uuid[],
      ${column((one) => one.active_at)}::timestamptz[],
      ${column((one) => one.tool_call_at)}::timestamptz[],
      ${column((one) => one.keepalive_until)}::timestamptz[]
    ) as v (id, active_at, tool_call_at, keepalive_until)
    where w.id = v.id`.execute(db)
}
