import { sql } from 'kysely'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Db } from '../../../db/database.ts'

export interface LayerOnHost {
  digest: string
  size_bytes: number
}

const DAY_MS = 24 * 3600_000

/**
 * The layers that rows name. The host itself protects layers of machines and checkpoints. A version of a deleted organization counts
 * while a workspace uses it.
 */
export async function namedLayers(db: Db, cell_id: string, digests: readonly string[]): Promise<Set<string>> {
  if (digests.length === 0) return new Set()
  const { rows } = await sql<{ layer: string }>`
    select distinct layer from (
      select unnest(v.layers) as layer from template_versions v
      join templates t on t.id = v.template_id left join organizations g on g.id = t.organization_id
      where g.deleted_at is null
        or exists (select from workspaces w where w.template_version_id = v.id and w.observed_state <> 'deleted')
      union all
      select unnest(s.layers) from template_draft_states s join template_drafts d on d.id = s.draft_id where d.discarded_at is null
      union all
      select unnest(w.state_layers) from workspaces w where w.observed_state <> 'deleted'
      union all
      select s.layer from template_build_steps s where s.cell_id = ${cell_id}
      union all
      select jsonb_array_elements_text(b.spec -> 'layers') from template_builds b join operations o on o.id = b.operation_id
      where o.completed_at is null and jsonb_typeof(b.spec -> 'layers') = 'array'
    ) named where layer = any(${digests}::text[])`.execute(db)
  return new Set(rows.map(({ layer }) => layer))
}

export async function forgetSteps(db: Db, cell_id: string, now: Date): Promise<void> {
  const { step_unused_days, steps_per_organization_max } = LIMITS.template_layer
  await sql`
    delete from template_build_steps s using (
      select organization_id, key, row_number() over (partition by organization_id order by used_at desc, key) as place
      from template_build_steps where cell_id = ${cell_id}
    ) ranked, organizations g
    where s.cell_id = ${cell_id} and ranked.organization_id = s.organization_id and ranked.key = s.key and g.id = s.organization_id
      and (ranked.place > ${steps_per_organization_max} or s.used_at < ${new Date(now.getTime() - step_unused_days * DAY_MS)}
        or g.deleted_at is not null)`.execute(db)
}

export async function noteUnnamed(db: Db, cell_id: string, unnamed: readonly LayerOnHost[], now: Date): Promise<void> {
  const layers = unnamed.map(({ digest }) => digest)
  await sql`delete from unnamed_layers where cell_id = ${cell_id} and layer <> all(${layers}::text[])`.execute(db)
  if (unnamed.length === 0) return
  const rows = unnamed.map(({ digest, size_bytes }) => ({ cell_id, layer: digest, size_bytes, since: now }))
  await db
    .insertInto('unnamed_layers')
    .values(rows)
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

export async function unnamedSince(db: Db, cell_id: string, before: Date, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('unnamed_layers')
    .select('layer')
    .where('cell_id', '=', cell_id)
    .where('since', '<=', before)
    .orderBy('since')
    .orderBy('layer')
    .limit(limit)
    .execute()
  return rows.map(({ layer }) => layer)
}

export async function forgetUnnamed(db: Db, cell_id: string, layers: readonly string[]): Promise<void> {
  if (layers.length === 0) return
  await db.deleteFrom('unnamed_layers').where('cell_id', '=', cell_id).where('layer', 'in', layers).execute()
}

export async function countUnnamed(db: Db, cell_id: string): Promise<{ count: number; bytes: number }> {
  const { rows } = await sql<{ count: number; bytes: number }>`
    select count(*)::integer as count, coalesce(sum(size_bytes), 0)::float8 as bytes from unnamed_layers where cell_id = ${cell_id}`.execute(
    db,
  )
  return rows[0] ?? { count: 0, bytes: 0 }
}
