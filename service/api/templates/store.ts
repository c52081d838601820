import { sql } from 'kysely'
import type { EgressPolicy } from '../../../contract/egress/policy.ts'
import type { ScanFinding } from '../../../contract/schemas/scan-findings.ts'
import type { WarmVersion } from '../../../contract/schemas/templates.ts'
import type { TemplateSettings } from '../../../contract/schemas/template-settings.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import type { Reader } from '../../db/reader.ts'
import type { Page } from '../calls/pages.ts'

export interface TemplateRow {
  id: string
  slug: string
  organization_id: string | null
  display_name: string | null
  description: string | null
  latest_version: number | null
  created_at: Date
  archived_at: Date | null
}

export interface VersionRow {
  id: string
  template_id: string
  slug: string
  organization_id: string | null
  version: number
  layered: boolean
  layers: string[]
  settings: TemplateSettings
  egress: EgressPolicy | null
  description: string | null
  scan_findings: ScanFinding[]
  /** Captures on all hosts; empty if the version is not warm. */
  captures: { state: 'wanted' | 'making' | 'ready' | 'failed'; error: WarmVersion['error'] }[]
  created_at: Date
  published_at: Date | null
  archived_at: Date | null
}

const TEMPLATE = `t.id, t.slug, t.organization_id, t.display_name, t.description, t.created_at, t.archived_at,
  (select v.version from template_versions v where v.template_id = t.id and v.published_at is not null and v.archived_at is null
   order by v.version desc limit 1) as latest_version`

/** Reads one row more than the page holds. Filters by owner first, because an organization has few of all templates. */
export function listTemplates(reads: Reader, organizations: string[], platform: boolean, page: Page): Promise<TemplateRow[]> {
  return reads.rows(
    'templates.list',
    `with own as materialized (
       select * from templates where organization_id = any($1::uuid[])
       union all
       select * from templates where organization_id is null and $4::boolean
     ), p as materialized (select * from own where $2::uuid is null or id < $2::uuid order by id desc limit $3)
     select ${TEMPLATE} from p t order by t.id desc`,
    [organizations, page.below, page.limit + 1, platform],
  )
}

/** The platform's template is the last row. */
export function findTemplates(reads: Reader, organizations: string[], slug: string): Promise<TemplateRow[]> {
  return reads.rows(
    'templates.by_slug',
    `select ${TEMPLATE} from templates t
     where t.slug = $2 and (t.organization_id = any($1::uuid[]) or t.organization_id is null)
     order by t.organization_id nulls last`,
    [organizations, slug],
  )
}

const VERSION = `v.id, v.template_id, t.slug, t.organization_id, v.version, v.layered, v.layers, v.settings, v.egress, v.description, v.scan_findings,
  v.created_at, v.published_at, v.archived_at,
  coalesce((select jsonb_agg(jsonb_build_object('state', c.state, 'error', c.error)) from template_captures c where c.version_id = v.id), '[]') as captures
  from template_versions v join templates t on t.id = v.template_id`

export function listVersions(reads: Reader, template_id: string, page: Page): Promise<VersionRow[]> {
  return reads.rows(
    'template_versions.list',
    `select ${VERSION} where v.template_id = $1
       and v.version < coalesce((select version from template_versions where id = $2::uuid)::bigint, 2147483648)
     order by v.version desc limit $3`,
    [template_id, page.below, page.limit + 1],
  )
}

export async function readVersion(reads: Reader, template_id: string, version: number): Promise<VersionRow | null> {
  const [row] = await reads.rows<VersionRow>('template_versions.one', `select ${VERSION} where v.template_id = $1 and v.version = $2`, [
    template_id,
    version,
  ])
  return row ?? null
}

/** The lock serializes publishing and archiving. */
export async function lockTemplate(tx: ChangeTx, template_id: string): Promise<{ project_id: string | null }> {
  const { rows } = await sql<{
    project_id: string | null
  }>`select project_id from templates where id = ${template_id} for no key update`.execute(tx)
  return rows[0] ?? { project_id: null }
}

export async function markVersion(tx: ChangeTx, id: string, what: 'published_at' | 'archived_at', now: Date): Promise<void> {
  await tx
    .updateTable('template_versions')
    .set({ [what]: now })
    .where('id', '=', id)
    .execute()
}

export async function markArchived(tx: ChangeTx, template_id: string, now: Date): Promise<void> {
  await tx.updateTable('templates').set({ archived_at: now }).where('id', '=', template_id).execute()
}
