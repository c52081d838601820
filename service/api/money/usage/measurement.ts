import type { Static } from 'typebox'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Measurement } from '../../../../contract/schemas/usage.ts'
import { readMeasuredThrough } from '../../../core/money/usage/store.ts'
import type { ReadDeps } from '../../calls/deps.ts'

const HOUR_MS = 3600_000

export async function measurementOf({ reads }: ReadDeps, organization_id: string, now: Date): Promise<Static<typeof Measurement>> {
  const through = await readMeasuredThrough(reads, organization_id)
  const hours = Math.floor(now.getTime() / HOUR_MS) - LIMITS.usage.final_after_hours
  return { measured_through: through?.toISOString() ?? null, final_through: new Date(hours * HOUR_MS).toISOString() }
}
