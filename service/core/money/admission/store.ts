import { sql } from 'kysely'
import type { Db } from '../../../db/database.ts'
import type { Tx } from '../../../db/reader.ts'
import { concurrencyRefusal, startRefusal, type Plan } from './plan.ts'

export async function readPlan(db: Db, organization_id: string): Promise<Plan> {
  return db
    .selectFrom('organizations as g')
    .innerJoin('plans as p', 'p.id', 'g.plan_id')
    .select([
      'p.slug',
      'p.concurrent_workspaces',
      'p.cpu_millis',
      'p.memory_mib',
      'p.disk_gib',
      'p.missing_limits',
      'p.refuses_starts',
      sql<Plan['organization_refuses_starts']>`coalesce(g.refuses_starts, g.payment_refuses_starts)`.as('organization_refuses_starts'),
      sql<Date | null>`coalesce(g.grace_until, g.payment_grace_until)`.as('grace_until'),
      'g.allowance_exhausted',
      'g.allowance',
    ])
    .where('g.id', '=', organization_id)
    .executeTakeFirstOrThrow()
}

/** `startRefusal(plan) === null` in SQL, for organizations as g and their plans as p. */
export const startsAreAllowed = sql<boolean>`(coalesce(g.refuses_starts, g.payment_refuses_starts, p.refuses_starts) is null
  and cardinality(p.missing_limits) = 0 and g.allowance_exhausted is null)`

export async function admitStart(tx: Tx, organization_id: string, workspace_id: string): Promise<Plan> {
  const plan = await readPlan(tx, organization_id)
  const refused =
    startRefusal(plan) ?? (plan.concurrent_workspaces === null ? null : await tooMany(tx, plan, organization_id, workspace_id))
  if (refused) throw refused
  return plan
}

/** Admits a workspace without a machine, to which no machine limit applies (Cell, "File-first workspace"). */
export async function admitTree(tx: Tx, organization_id: string): Promise<Plan> {
  const plan = await readPlan(tx, organization_id)
  const refused = startRefusal(plan)
  if (refused) throw refused
  return plan
}

/** The limit of concurrent builds is checked elsewhere. */
export const admitBuild = admitTree

async function tooMany(tx: Tx, plan: Plan, organization_id: string, workspace_id: string) {
  // Held until the transaction ends. Otherwise two starts that count at the same time would both take the last permit.
  await sql`select pg_advisory_xact_lock(hashtextextended(${`admission:${organization_id}`}, 0))`.execute(tx)
  const { running } = await tx
    .selectFrom('workspaces as w')
    .leftJoin('workspace_holds as h', 'h.workspace_id', 'w.id')
    .select((e) => e.fn.countAll<number>().as('running'))
    .where('w.organization_id', '=', organization_id)
    .where('w.id', '<>', workspace_id)
    .where('w.deleted_at', 'is', null)
    .where('w.desired_state', '=', 'running')
    .where('w.mode', '=', 'processful')
    // A failed workspace counts only while an operation holds it, which may start it.
    .where((e) => e.or([e('w.observed_state', '<>', 'failed'), e('h.operation_id', 'is not', null)]))
    .executeTakeFirstOrThrow()
  return concurrencyRefusal(plan, running)
}
