import type { Logger } from 'pino'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Db } from '../../../db/database.ts'
import type { Clock } from '../../../lib/clock.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { whileClockStable } from '../../../lib/stable-clock.ts'
import { HostFailure, type MachineHost } from '../../host/hostd.ts'
import { oneAtATime, tickEvery } from '../../../lib/poll.ts'
import { forgetSteps, forgetUnnamed, namedLayers, noteUnnamed, unnamedSince } from './store.ts'

export interface CollectContext {
  cell_id: string
  db: Db
  clock: Clock
  log: Logger
  host: Pick<MachineHost, 'layers' | 'dropLayers'>
  quarantine_days: number
}

const LOOK_MS = 10 * 60_000
const DAY_MS = 24 * 3600_000

export function startCollectingLayers(context: CollectContext, signal: AbortSignal): void {
  const failed = (error: unknown) => {
    if (error instanceof HostFailure && error.code === 'unreachable') return // the metric berth_host_up reports an unreachable host
    context.log.warn({ err: error }, 'layers could not be collected')
  }
  const look = oneAtATime(async () => void (await collectLayers(context)))
  tickEvery(LOOK_MS, whileClockStable(context.clock, context.log, 'collection of layers', look), failed, signal)
}

/**
 * Removes layers that no row names. The host lists its layers before the rows are read. A process that names a layer later must first
 * mark it as used. The host removes no layer that was used since its list, or shortly before (decision 230). A restored database lacks
 * newer names, so unnamed layers are retained for the quarantine.
 */
export async function collectLayers({ cell_id, db, clock, log, host, quarantine_days }: CollectContext): Promise<string[]> {
  const now = clock.now()
  await forgetSteps(db, cell_id, now)
  const { listing, layers } = await host.layers()
  const named = await namedLayers(
    db,
    cell_id,
    layers.map(({ digest }) => digest),
  )
  const unnamed = layers.filter(({ digest }) => !named.has(digest))
  await noteUnnamed(db, cell_id, unnamed, now)
  const before = new Date(now.getTime() - quarantine_days * DAY_MS)
  const due = await unnamedSince(db, cell_id, before, LIMITS.template_layer.removals_per_look_max)
  if (due.length === 0) return []
  await failpoint('layer_collect.L1')
  const dropped = await host.dropLayers({ listing, layers: due, idle_seconds_min: LIMITS.template_layer.idle_seconds })
  await failpoint('layer_collect.L2')
  await forgetUnnamed(db, cell_id, dropped)
  if (dropped.length > 0) log.info({ layers: dropped }, 'removed unnamed layers')
  return dropped
}
