import { sql } from 'kysely'
import type { TemplateSettings } from '../../../contract/schemas/template-settings.ts'
import { readerOf, type Reader, type Tx } from '../../db/reader.ts'
import { OPERATION_COLUMNS } from './operations/view.ts'
import type { WorkspaceRow } from './row.ts'

const WORKSPACE_COLUMNS = [
  'id',
  'organization_id',
  'project_id',
  'key',
  'template_version_id',
  'observed_state',
  'desired_state',
  'pending_reason',
  'ended_reason',
  'lifetime',
  'mode',
  'purpose',
  'disk_layout',
  'origin',
  'caps',
  'ceiling_cpu_millis',
  'ceiling_memory_mib',
  'ceiling_disk_gib',
  'grant_cpu_millis',
  'grant_memory_mib',
  'grant_disk_gib',
  'inputs',
  'startup',
  'tree_revision',
  'cell_id',
  'ownership_epoch',
  'checkpoint_id',
  'idle_policy',
  'background_seconds',
  'state_layers',
  'family_id',
  'active_at',
  'tool_call_at',
  'busy_until',
  'keepalive_until',
  'suspend_requested_at',
  'suspend_after_seconds',
  'suspend_not_before',
  'idle_gaps',
  'idle_failures',
  'idle_retry_at',
  'created_at',
  'updated_at',
  'deleted_at',
] as const

export const WORKSPACE_TEXT = `select ${WORKSPACE_COLUMNS.map((name) => `w.${name}`).join(', ')},
  t.slug as template_slug, v.version as template_version, v.settings -> 'defaults' as template_defaults,
  c.endpoint as cell_endpoint, ${OPERATION_COLUMNS.map((name) => `o.${name} as op_${name}`).join(', ')}
from workspaces w
join template_versions v on v.id = w.template_version_id
join templates t on t.id = v.template_id
left join cells c on c.id = w.cell_id
left join workspace_holds h on h.workspace_id = w.id
left join operations o on o.id = h.operation_id`

export async function readWorkspace(reads: Reader, id: string): Promise<WorkspaceRow | null> {
  const [row] = await reads.rows<WorkspaceRow>('workspaces.by_id', `${WORKSPACE_TEXT} where w.id = $1`, [id])
  return row ?? null
}

export interface KeyRow {
  organization_id: string
  project_id: string
  workspace_id: string
  reusable: boolean
}

/** A key's row remains after the workspace's row is deleted. */
export async function readKey(reads: Reader, organization_id: string, key: string): Promise<KeyRow | null> {
  const text = 'select organization_id, project_id, workspace_id, reusable from workspace_keys where organization_id = $1 and key = $2'
  const [row] = await reads.rows<KeyRow>('workspaces.key', text, [organization_id, key])
  return row ?? null
}

export async function readByKey(reads: Reader, organization_id: string, key: string): Promise<WorkspaceRow | null> {
  const text = `${WORKSPACE_TEXT} where w.id = (select workspace_id from workspace_keys where organization_id = $1 and key = $2)`
  const [row] = await reads.rows<WorkspaceRow>('workspaces.by_key', text, [organization_id, key])
  return row ?? null
}

/** Two statements: one statement that waits for the lock would return joined rows from before the wait. */
export async function lockWorkspace(tx: Tx, id: string): Promise<WorkspaceRow | null> {
  // `no key update`: operations that refer to the row need not wait for the lock.
  await sql`select 1 from workspaces where id = ${id} for no key update`.execute(tx)
  return readWorkspace(readerOf(tx), id)
}

export interface TemplateVersion {
  id: string
  layered: boolean
  settings: TemplateSettings
}

export interface FoundTemplate {
  archived_at: Date | null
  /** Newest version that is published and not archived. */
  latest_version: number | null
  version: TemplateVersion | null
}

/** Read in one statement to avoid a round trip. */
export interface Opening {
  key: KeyRow | null
  template: FoundTemplate | null
}

interface OpeningRow extends KeyRow, TemplateVersion {
  has_key: boolean
  has_template: boolean
  has_version: boolean
  archived_at: Date | null
  latest_version: number | null
}

/** @param named `version` null: the latest version. */
export async function readOpening(
  reads: Reader,
  organization_id: string,
  key: string,
  { slug, version }: { slug: string; version: number | null },
): Promise<Opening> {
  const [row] = await reads.rows<OpeningRow>(
    'workspaces.opening',
    `select k.workspace_id is not null as has_key, k.organization_id, k.project_id, k.workspace_id, k.reusable,
       t.id is not null as has_template, t.archived_at, l.version as latest_version, v.id is not null as has_version, v.id, v.layered, v.settings
     from (select $1::uuid as organization_id) g
     left join workspace_keys k on k.organization_id = g.organization_id and k.key = $2
     left join lateral (select id, archived_at from templates
       where slug = $3 and (organization_id = g.organization_id or organization_id is null)
       order by organization_id nulls last limit 1) t on true
     left join lateral (select version from template_versions
       where template_id = t.id and published_at is not null and archived_at is null order by version desc limit 1) l on true
     left join template_versions v on v.template_id = t.id and v.version = coalesce($4::int, l.version)
       and v.published_at is not null and v.archived_at is null`,
    [organization_id, key, slug, version],
  )
  if (!row) throw new Error('a row that needs no table is missing')
  const { has_key, has_template, has_version, archived_at, latest_version, project_id, workspace_id, reusable, id, layered, settings } = row
  return {
    key: has_key ? { organization_id, project_id, workspace_id, reusable } : null,
    template: has_template ? { archived_at, latest_version, version: has_version ? { id, layered, settings } : null } : null,
  }
}

export async function readTemplateVersion(reads: Reader, id: string): Promise<TemplateVersion> {
  const [row] = await reads.rows<TemplateVersion>(
    'templates.version',
    'select id, layered, settings from template_versions where id = $1',
    [id],
  )
  if (!row) throw new Error(`template version ${id} is gone although a workspace refers to it`)
  return row
}

export async function listCells(reads: Reader, since: Date): Promise<string[]> {
  const rows = await reads.rows<{ id: string }>('cells.alive', 'select id from cells where seen_at > $1 order by id', [since])
  return rows.map((row) => row.id)
}

/** @returns the cell with the fewest running workspaces for its memory. */
export async function leastUsedCell(reads: Reader, ids: string[]): Promise<string | null> {
  const [row] = await reads.rows<{ id: string }>(
    'cells.least_used',
    `select c.id from cells c
     left join workspaces w on w.cell_id = c.id and w.observed_state <> 'deleted' and w.desired_state = 'running'
     where c.id = any($1)
     group by c.id order by count(w.id)::float8 / greatest(coalesce(c.capacity_memory_mib, 1), 1), c.id limit 1`,
    [ids],
  )
  return row?.id ?? null
}
