import { sql } from 'kysely'
import type { ScanFinding } from '../../../../contract/schemas/scan-findings.ts'
import type { BuildKind } from '../../../../contract/schemas/template-builds.ts'
import type { OperationState } from '../../../../contract/states/operation.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Reader, Tx } from '../../../db/reader.ts'
import type { OperationError } from '../../../db/column-types.ts'

export interface BuildRow {
  id: string
  organization_id: string
  project_id: string
  template_slug: string
  operation_id: string
  kind: BuildKind
  state: OperationState
  state_reason: string | null
  version: number | null
  published: boolean
  findings: ScanFinding[]
  error: OperationError | null
  log_bytes: number
  created_at: Date
  started_at: Date | null
  completed_at: Date | null
}

const BUILD = `b.id, b.organization_id, b.project_id, t.slug as template_slug, b.operation_id, b.kind, o.state, o.state_reason, v.version,
  v.published_at is not null and v.archived_at is null as published, b.findings, o.error, b.log_bytes, b.created_at, o.started_at, o.completed_at
  from template_builds b join templates t on t.id = b.template_id join operations o on o.id = b.operation_id
  left join template_versions v on v.id = b.version_id`

export async function readBuild(reads: Reader, id: string): Promise<BuildRow | null> {
  const [row] = await reads.rows<BuildRow>('template_builds.one', `select ${BUILD} where b.id = $1`, [id])
  return row ?? null
}

export interface LogPiece {
  start_byte: number
  text: string
}

export function readLog(reads: Reader, build_id: string, offset: number, pieces_max: number): Promise<LogPiece[]> {
  return reads.rows(
    'template_builds.log',
    `select start_byte, text from template_build_logs
     where build_id = $1 and start_byte >= coalesce(
       (select max(start_byte) from template_build_logs where build_id = $1 and start_byte <= $2), 0)
     order by start_byte limit $3`,
    [build_id, offset, pieces_max],
  )
}

export interface NewBuild {
  id: string
  organization_id: string
  project_id: string
  template_id: string
  operation_id: string
  kind: BuildKind
  spec: object
  capture_operation_id: string | null
  now: Date
}

export async function insertBuild(tx: ChangeTx, { now, spec, ...build }: NewBuild): Promise<void> {
  await tx
    .insertInto('template_builds')
    .values({ ...build, spec: JSON.stringify(spec), version_id: null, created_at: now })
    .execute()
}

/** The lock keeps concurrent builds within the limit. */
export async function countBuilds(tx: Tx, organization_id: string): Promise<number> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`builds:${organization_id}`}, 0))`.execute(tx)
  const { running } = await tx
    .selectFrom('template_builds as b')
    .innerJoin('operations as o', 'o.id', 'b.operation_id')
    .select((e) => e.fn.countAll<number>().as('running'))
    .where('b.organization_id', '=', organization_id)
    .where('o.completed_at', 'is', null)
    .executeTakeFirstOrThrow()
  return running
}

/** null: no limit. */
export async function readBuildLimit(reads: Reader, organization_id: string): Promise<number | null> {
  const [row] = await reads.rows<{ concurrent_template_builds: number | null }>(
    'template_builds.limit',
    'select p.concurrent_template_builds from organizations g join plans p on p.id = g.plan_id where g.id = $1',
    [organization_id],
  )
  return row?.concurrent_template_builds ?? null
}

export interface NewTemplate {
  id: string
  organization_id: string
  /** null: a person makes the template, outside any project. */
  project_id: string | null
  slug: string
  display_name: string | null
  description: string | null
  created_at: Date
}

export interface LockedTemplate {
  id: string
  project_id: string | null
  archived_at: Date | null
}

export async function lockOrMakeTemplate(tx: ChangeTx, template: NewTemplate): Promise<LockedTemplate> {
  await tx
    .insertInto('templates')
    .values({ ...template, archived_at: null })
    .onConflict((conflict) => conflict.columns(['organization_id', 'slug']).doNothing())
    .execute()
  return tx
    .selectFrom('templates')
    .select(['id', 'project_id', 'archived_at'])
    .where('organization_id', '=', template.organization_id)
    .where('slug', '=', template.slug)
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow()
}

export async function isPlatformSlug(reads: Reader, slug: string): Promise<boolean> {
  const rows = await reads.rows('templates.of_platform', 'select 1 from templates where slug = $1 and organization_id is null', [slug])
  return rows.length > 0
}
