import { sql } from 'kysely'
import { LIMITS } from '../../../../contract/limits.ts'
import type { TemplateSettings } from '../../../../contract/schemas/template-settings.ts'
import type { WarmVersion } from '../../../../contract/schemas/templates.ts'
import type { Db } from '../../../db/database.ts'
import type { Resources } from '../../../db/column-types.ts'
import type { Capture, WarmCandidate } from './rules.ts'

export interface WarmFacts extends Pick<WarmCandidate, 'purpose' | 'inputs' | 'secrets'> {
  version_id: string
  organization_id: string
  project_id: string
  settings: TemplateSettings
  engine: string | null
  capture: Capture | null
}

/** @returns undefined if the version of the workspace is not warm */
export async function readWarmFacts(db: Db, workspace_id: string, cell_id: string): Promise<WarmFacts | undefined> {
  const { rows } = await sql<WarmFacts>`
    select w.purpose, w.inputs, w.organization_id, w.project_id, v.id as version_id, v.settings, n.engine,
      coalesce((select array_agg(b.name) from workspace_secrets b where b.workspace_id = w.id), '{}') as secrets,
      case when c.id is not null then jsonb_build_object('id', c.id, 'state', c.state, 'checkpoint_id', c.checkpoint_id, 'engine', c.engine,
        'agent_protocol', c.agent_protocol, 'resources', c.resources) end as capture
    from workspaces w
    join template_versions v on v.id = w.template_version_id
    join cells n on n.id = ${cell_id}
    left join template_captures c on c.version_id = v.id and c.cell_id = n.id
    where w.id = ${workspace_id} and (v.settings -> 'warm')::text = 'true'`.execute(db)
  return rows[0]
}

export interface NewCapture {
  id: string
  version_id: string
  cell_id: string
  organization_id: string
  project_id: string
}

/** Requests a capture, but does not retry a recent failure. */
export async function requestCapture(db: Db, one: NewCapture, now: Date): Promise<void> {
  const before = new Date(now.getTime() - LIMITS.warm.retry_seconds * 1000)
  await sql`
    insert into template_captures (id, version_id, cell_id, organization_id, project_id, state, created_at, updated_at, used_at)
    values (${one.id}, ${one.version_id}, ${one.cell_id}, ${one.organization_id}, ${one.project_id}, 'wanted', ${now}, ${now}, ${now})
    on conflict (version_id, cell_id) do update set state = 'wanted', error = null, updated_at = ${now}, used_at = ${now}
      where template_captures.state = 'failed' and template_captures.updated_at < ${before}`.execute(db)
}

/** Requests the capture again, unless a newer one has begun. */
export async function discardCapture(db: Db, { id, checkpoint_id }: Pick<Capture, 'id' | 'checkpoint_id'>, now: Date): Promise<void> {
  await sql`
    update template_captures set state = 'wanted', checkpoint_id = null, size_bytes = null, updated_at = ${now}
    where id = ${id} and state = 'ready' and checkpoint_id = ${checkpoint_id}`.execute(db)
}

export async function noteUsed(db: Db, id: string, now: Date): Promise<void> {
  await db.updateTable('template_captures').set({ used_at: now }).where('id', '=', id).execute()
}

export interface RequestedCapture extends NewCapture {
  layers: string[]
  settings: TemplateSettings
  created_at: Date
}

/** The next capture to make, including one that a dead process has begun. */
export async function nextWanted(db: Db, cell_id: string, passed_over: readonly string[]): Promise<RequestedCapture | undefined> {
  const { rows } = await sql<RequestedCapture>`
    select c.id, c.version_id, c.cell_id, c.organization_id, c.project_id, c.created_at, v.layers, v.settings
    from template_captures c join template_versions v on v.id = c.version_id
    where c.cell_id = ${cell_id} and c.state in ('wanted', 'making') and c.id <> all(${[...passed_over]}::uuid[])
    order by c.used_at desc limit 1`.execute(db)
  return rows[0]
}

/** @returns the fencing token of this attempt, or undefined if the capture is no longer wanted */
export async function beginCapture(db: Db, id: string, now: Date): Promise<number | undefined> {
  const { rows } = await sql<{ fence: number }>`
    update template_captures set state = 'making', updated_at = ${now} where id = ${id} and state in ('wanted', 'making')
    returning nextval('fences') as fence`.execute(db)
  return rows[0]?.fence
}

export interface Captured {
  checkpoint_id: string
  engine: string
  agent_protocol: number
  resources: Resources
  size_bytes: number
}

/** @returns false if another attempt runs, or the capture is no longer wanted */
export async function commitCapture(db: Db, id: string, fence: number, made: Captured, now: Date): Promise<boolean> {
  return db.transaction().execute(async (tx) => {
    const { rows } = await sql`
      update template_captures set state = 'ready', checkpoint_id = ${made.checkpoint_id}, engine = ${made.engine},
        agent_protocol = ${made.agent_protocol}, resources = ${JSON.stringify(made.resources)}, size_bytes = ${made.size_bytes},
        updated_at = ${now}, used_at = ${now}
      where id = ${id} and state = 'making'
        and exists (select from machines where kind = 'build' and id = ${id} and fence = ${fence})
      returning id`.execute(tx)
    if (rows.length === 0) return false
    await sql`delete from machines where kind = 'build' and id = ${id} and fence = ${fence}`.execute(tx)
    return true
  })
}

export async function failCapture(db: Db, id: string, error: NonNullable<WarmVersion['error']>, now: Date): Promise<void> {
  await sql`
    update template_captures set state = 'failed', error = ${JSON.stringify(error)}, updated_at = ${now}
    where id = ${id} and state = 'making'`.execute(db)
}

/** @returns captures whose data on the host must be deleted */
export async function forgetCaptures(db: Db, cell_id: string, kept_max: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    delete from template_captures c using template_versions v, templates t, cells n
    where v.id = c.version_id and t.id = v.template_id and n.id = c.cell_id and c.cell_id = ${cell_id} and (
      c.state = 'ready' and c.engine is distinct from n.engine or v.published_at is null or v.archived_at is not null or t.archived_at is not null or ${kept_max}::int = 0 or c.id in (
        select id from template_captures where cell_id = ${cell_id} and state = 'ready' order by used_at desc, id desc offset ${kept_max}))
    returning c.id`.execute(db)
  return rows.map(({ id }) => id)
}

/** Warm versions without a capture. A version without a build has no project for a capture, so its first open requests it. */
export async function listUnmade(db: Db, cell_id: string, limit: number): Promise<Omit<NewCapture, 'id' | 'cell_id'>[]> {
  const { rows } = await sql<Omit<NewCapture, 'id' | 'cell_id'>>`
    select v.id as version_id, b.organization_id, b.project_id
    from template_versions v join templates t on t.id = v.template_id join template_builds b on b.version_id = v.id
    where (v.settings -> 'warm')::text = 'true' and v.published_at is not null and v.archived_at is null and t.archived_at is null
      and v.version = (select max(o.version) from template_versions o
        where o.template_id = t.id and o.published_at is not null and o.archived_at is null)
      and not exists (select from template_captures c where c.version_id = v.id and c.cell_id = ${cell_id})
    order by v.published_at desc limit ${limit}`.execute(db)
  return rows
}

export async function countCaptures(db: Db, cell_id: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from template_captures where cell_id = ${cell_id} and state <> 'failed'`.execute(db)
  return rows[0]?.count ?? 0
}
