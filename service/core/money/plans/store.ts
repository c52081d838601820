import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../../../db/database.ts'
import type { Database } from '../../../db/schema.ts'
import type { ChangeTx } from '../../changes/mutate.ts'

export type Plan = Selectable<Database['plans']>

export type PlanLimits = Partial<
  Pick<
    Plan,
    | 'is_listed'
    | 'currency'
    | 'price_minor'
    | 'cpu_hour_minor'
    | 'ram_gib_hour_minor'
    | 'concurrent_workspaces'
    | 'cpu_millis'
    | 'memory_mib'
    | 'disk_gib'
    | 'missing_limits'
    | 'shared_volumes_max'
    | 'shared_volume_gib_max'
    | 'volume_attachments_per_workspace'
    | 'concurrent_template_builds'
    | 'missing_volume_limits'
    | 'refuses_starts'
    | 'cpu_hours'
    | 'ram_gib_hours'
  >
>

export function findPlan(db: Db, slug: string): Promise<Plan | undefined> {
  return db.selectFrom('plans').selectAll().where('slug', '=', slug).executeTakeFirst()
}

export function listPlans(db: Db): Promise<Plan[]> {
  return db.selectFrom('plans').selectAll().orderBy('slug').execute()
}

export async function insertPlan(tx: ChangeTx, plan: Insertable<Database['plans']>): Promise<void> {
  await tx.insertInto('plans').values(plan).execute()
}

export async function updatePlan(tx: ChangeTx, id: string, limits: PlanLimits): Promise<void> {
  if (Object.keys(limits).length > 0) await tx.updateTable('plans').set(limits).where('id', '=', id).execute()
}
