import type { ReasonOf } from '../../../contract/errors.ts'
import type { Included } from '../../core/usage/allowances.ts'
import type { Reader } from '../../db/reader.ts'

export interface AllowanceRow extends Included {
  allowance_exhausted: ReasonOf<'allowance_exhausted'> | null
}

/** What the plan of an organization includes, and whether something is used up. */
export async function readAllowance(reads: Reader, organization_id: string): Promise<AllowanceRow | null> {
  const [row] = await reads.rows<AllowanceRow>(
    'usage.allowance',
    `select g.allowance_exhausted, p.cpu_hours, p.ram_gib_hours from organizations g join plans p on p.id = g.plan_id where g.id = $1`,
    [organization_id],
  )
  return row ?? null
}
