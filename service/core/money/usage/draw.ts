import { readerOf } from '../../../db/reader.ts'
import type { Db } from '../../../db/database.ts'
import type { Units } from '../../../../contract/schemas/usage.ts'
import type { Granted, Included } from './allowances.ts'
import { drawsOf, grantedBy, type Grant } from './grants.ts'
import { lockGrants, readGrants, writeDraws } from './grant-store.ts'
import type { Period } from './period.ts'

/**
 * @param at decides which grants have ended.
 * @returns the units that credits add to the period's allowances.
 */
export async function drawGrants(
  db: Db,
  organization_id: string,
  { included, used, period, at }: { included: Included; used: Units; period: Period; at: Date },
): Promise<Granted> {
  const known = await readGrants(readerOf(db), organization_id, period.starts_at)
  if (drawsOf(included, used, known, at).length === 0) return grantedBy(known, at)
  return db.transaction().execute(async (tx) => {
    await lockGrants(tx, organization_id)
    const grants = await readGrants(readerOf(tx), organization_id, period.starts_at)
    const draws = drawsOf(included, used, grants, at)
    if (draws.length > 0) await writeDraws(tx, draws, period.starts_at, at)
    return grantedBy(drawn(grants, draws), at)
  })
}

function drawn(grants: readonly Grant[], draws: ReturnType<typeof drawsOf>): Grant[] {
  const by_id = new Map(draws.map(({ grant_id, meter_units }) => [grant_id, meter_units]))
  return grants.map((grant) => {
    const more = by_id.get(grant.id) ?? 0
    return { ...grant, drawn_meter_units: grant.drawn_meter_units + more, drawn_in_period: grant.drawn_in_period + more }
  })
}
