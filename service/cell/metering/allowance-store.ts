import type { ReasonOf } from '../../../contract/errors.ts'
import type { AllowanceState } from '../../core/admission/allowance.ts'
import type { Included } from '../../core/usage/allowances.ts'
import type { Db } from '../../db/database.ts'

export interface Judged extends Included {
  organization_id: string
  allowance_exhausted: ReasonOf<'allowance_exhausted'> | null
  allowance: object | null
}

/** Organizations whose usage grows on this cell and whose plan includes so much, and those for which something is used up. */
export function readJudged(db: Db, cell_id: string): Promise<Judged[]> {
  return db
    .selectFrom('organizations as g')
    .innerJoin('plans as p', 'p.id', 'g.plan_id')
    .select(['g.id as organization_id', 'g.allowance_exhausted', 'g.allowance', 'p.cpu_hours', 'p.ram_gib_hours'])
    .where(({ and, eb, exists, or, selectFrom }) => {
      const running = selectFrom('workspaces as w')
        .select('w.id')
        .whereRef('w.organization_id', '=', 'g.id')
        .where('w.cell_id', '=', cell_id)
        .where('w.observed_state', '=', 'running')
      const is_limited = or([eb('p.cpu_hours', 'is not', null), eb('p.ram_gib_hours', 'is not', null)])
      return or([eb('g.allowance_exhausted', 'is not', null), and([is_limited, exists(running)])])
    })
    .orderBy('g.id')
    .execute()
}

/** @param before what was found, as it was read: somebody else's word stays. */
export async function writeAllowance(
  db: Db,
  { organization_id, allowance_exhausted: before }: Judged,
  state: AllowanceState | null,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('organizations')
    .set({ allowance_exhausted: state === null ? null : 'allowance_used', allowance: state === null ? null : JSON.stringify(state) })
    .where('id', '=', organization_id)
    .where('allowance_exhausted', 'is not distinct from', before)
    .executeTakeFirst()
  return Number(numUpdatedRows) > 0
}
