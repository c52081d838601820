import { sql } from 'kysely'
import type { EgressPolicy } from '../../../../contract/egress/policy.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { ScanFinding } from '../../../../contract/schemas/scan-findings.ts'
import type { BuildKind } from '../../../../contract/schemas/template-builds.ts'
import type { TemplateSettings } from '../../../../contract/schemas/template-settings.ts'
import type { Db } from '../../../db/database.ts'
import type { OperationError } from '../../../db/column-types.ts'
import type { Tx } from '../../../db/reader.ts'

export interface Build {
  id: string
  organization_id: string
  project_id: string
  template_id: string
  kind: BuildKind
  spec: object
  capture_operation_id: string | null
}

export function readBuild(db: Db, id: string): Promise<Build | undefined> {
  return db
    .selectFrom('template_builds')
    .select(['id', 'organization_id', 'project_id', 'template_id', 'kind', 'spec', 'capture_operation_id'])
    .where('id', '=', id)
    .executeTakeFirst()
}

export async function listCapturing(db: Db, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set()
  const rows = await db
    .selectFrom('template_builds as b')
    .innerJoin('operations as o', 'o.id', 'b.capture_operation_id')
    .select('b.id')
    .where('b.id', 'in', ids)
    .where('o.completed_at', 'is', null)
    .execute()
  return new Set(rows.map(({ id }) => id))
}

export async function readCapture(db: Db, operation_id: string): Promise<{ checkpoint_id: string | null; error: OperationError | null }> {
  const row = await db.selectFrom('operations').select(['result', 'error']).where('id', '=', operation_id).executeTakeFirst()
  const checkpoint_id = (row?.result as { checkpoint_id?: string } | null | undefined)?.checkpoint_id ?? null
  return { checkpoint_id, error: row?.error ?? null }
}

export interface MadeVersion {
  id: string
  template_id: string
  layered: boolean
  layers: readonly string[]
  settings: TemplateSettings
  egress: EgressPolicy | null
  description: string | null
  findings: ScanFinding[]
  published: boolean
  now: Date
}

/** Takes a lock, so that concurrent inserts get different version numbers. */
export async function insertVersion(tx: Tx, { now, published, egress, settings, findings, layers, ...made }: MadeVersion): Promise<number> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`versions:${made.template_id}`}, 0))`.execute(tx)
  const last = await tx
    .selectFrom('template_versions')
    .select((e) => e.fn.max('version').as('version'))
    .where('template_id', '=', made.template_id)
    .executeTakeFirst()
  const version = (last?.version ?? 0) + 1
  await tx
    .insertInto('template_versions')
    .values({
      ...made,
      version,
      layers: [...layers],
      settings: JSON.stringify(settings),
      egress: egress === null ? null : JSON.stringify(egress),
      scan_findings: JSON.stringify(findings),
      created_at: now,
      published_at: published ? now : null,
      archived_at: null,
    })
    .execute()
  return version
}

export async function isArchived(tx: Tx, template_id: string): Promise<boolean> {
  const row = await tx.selectFrom('templates').select('archived_at').where('id', '=', template_id).executeTakeFirst()
  return row === undefined || row.archived_at !== null
}

export async function endBuild(
  tx: Tx,
  id: string,
  { version_id, findings }: { version_id: string; findings: ScanFinding[] },
): Promise<void> {
  await tx
    .updateTable('template_builds')
    .set({ version_id, findings: JSON.stringify(findings) })
    .where('id', '=', id)
    .execute()
}

export async function expireCapture(tx: Tx, operation_id: string, now: Date): Promise<void> {
  await tx
    .updateTable('checkpoints')
    .set({ expires_at: now })
    .where('operation_id', '=', operation_id)
    .where('kind', '=', 'layer')
    .execute()
}

/** Expires captures whose build ended without using them, or before they were made. @returns the number expired */
export async function expireEndedCaptures(db: Db, cell_id: string, now: Date): Promise<number> {
  const { rows } = await sql`
    update checkpoints c set expires_at = ${now} from template_builds b join operations o on o.id = b.operation_id
    where c.cell_id = ${cell_id} and c.kind = 'layer' and c.expires_at is null and c.deleted_at is null
      and b.capture_operation_id = c.operation_id and o.completed_at is not null
    returning c.id`.execute(db)
  return rows.length
}

/** Locks the row of the build, so that concurrent appends wait for each other. */
export async function appendLog(db: Db, build_id: string, text: string): Promise<void> {
  if (text === '') return
  await db.transaction().execute(async (tx) => {
    const row = await tx.selectFrom('template_builds').select('log_bytes').where('id', '=', build_id).forUpdate().executeTakeFirst()
    if (row === undefined || row.log_bytes >= LIMITS.template_build.log_bytes_max) return
    const bytes = Buffer.from(text)
    const room = LIMITS.template_build.log_bytes_max - row.log_bytes
    const kept = bytes.length <= room ? text : `${bytes.toString('utf8', 0, room)}\n[the log of this build is full]\n`
    await tx.insertInto('template_build_logs').values({ build_id, start_byte: row.log_bytes, text: kept }).execute()
    await tx
      .updateTable('template_builds')
      .set({ log_bytes: row.log_bytes + Buffer.byteLength(kept) })
      .where('id', '=', build_id)
      .execute()
  })
}

const BUILDS_A_STATEMENT = 100

/** Empties large recipes of old builds, and deletes their logs. Versions contain the parts that they need. */
export async function forgetBuilds(db: Db, before: Date): Promise<void> {
  for (let is_all = false; !is_all;) {
    const { rows } = await sql`
      with over as (
        select b.id from template_builds b join operations o on o.id = b.operation_id
        where b.spec <> '{}' and b.created_at < ${before} and o.completed_at < ${before} limit ${BUILDS_A_STATEMENT}
      ), logs as (
        delete from template_build_logs l using over where l.build_id = over.id
      )
      update template_builds b set spec = '{}' from over where b.id = over.id returning b.id`.execute(db)
    is_all = rows.length < BUILDS_A_STATEMENT
  }
}
