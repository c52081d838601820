import { LIMITS } from '../../../../contract/limits.ts'
import type { ReasonOf } from '../../../../contract/errors.ts'
import type { Reader } from '../../../db/reader.ts'

export interface PlanRow {
  id: string
  slug: string
  name: string
  currency: string | null
  price_minor: number | null
  cpu_hour_minor: number | null
  ram_gib_hour_minor: number | null
  concurrent_workspaces: number | null
  cpu_millis: number | null
  memory_mib: number | null
  disk_gib: number | null
  cpu_hours: number | null
  ram_gib_hours: number | null
  shared_volumes_max: number | null
  shared_volume_gib_max: number | null
  volume_attachments_per_workspace: number | null
  concurrent_template_builds: number | null
  missing_limits: string[]
  missing_volume_limits: string[]
}

const COLUMNS = `p.id, p.slug, p.name, p.currency, p.price_minor, p.cpu_hour_minor, p.ram_gib_hour_minor, p.concurrent_workspaces, p.cpu_millis,
  p.memory_mib, p.disk_gib, p.cpu_hours, p.ram_gib_hours, p.shared_volumes_max, p.shared_volume_gib_max,
  p.volume_attachments_per_workspace, p.concurrent_template_builds, p.missing_limits, p.missing_volume_limits`

export function listPlans(reads: Reader): Promise<PlanRow[]> {
  return reads.rows(
    'plans.listed',
    `select ${COLUMNS} from plans p where p.is_listed order by p.price_minor nulls first, p.slug limit ${LIMITS.page.size_max}`,
    [],
  )
}

export interface StandingRow extends PlanRow {
  refuses_starts: ReasonOf<'entitlement_required'> | null
  grace_until: Date | null
  /** The plan was bought over the API, so a payment service collects its invoices. */
  is_bought: boolean
}

export async function readStanding(reads: Reader, organization_id: string): Promise<StandingRow | null> {
  const [row] = await reads.rows<StandingRow>(
    'plans.standing',
    `select ${COLUMNS}, coalesce(g.refuses_starts, g.payment_refuses_starts, p.refuses_starts) as refuses_starts,
       coalesce(g.grace_until, g.payment_grace_until) as grace_until,
       exists (select from payment_accounts a where a.organization_id = g.id and a.subscription_id is not null) as is_bought
     from organizations g join plans p on p.id = g.plan_id where g.id = $1`,
    [organization_id],
  )
  return row ?? null
}
