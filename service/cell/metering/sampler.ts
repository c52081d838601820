import type { Logger } from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import { MEASURES_MAX, type MachineHost, type MachineStats } from '../links/hostd.ts'
import { oneAtATime, tickEvery } from '../machines/ticking.ts'
import { addSamples, dropOldSamples, readSleepers, type Sleeping } from './store.ts'

export interface MeteringContext {
  cell_id: string
  db: Db
  clock: Clock
  host: MachineHost
  log: Logger
}

const SAMPLE_MS = 15_000
/** Machines of one statement: what a tick costs is bounded by it and by what one computer can run. */
const MACHINES_A_STATEMENT = 500
const DAY_MS = 24 * 3600_000
const COLLECT_TICKS = 40 // ten minutes

/**
 * Reads every machine's counters four times a minute. What a machine uses between the last reading and its end is not seen: at most
 * 15 seconds of it.
 */
export function startMetering(context: MeteringContext, signal: AbortSignal): void {
  let ticks = 0
  const tick = oneAtATime(async () => {
    ticks += 1
    await sample(context)
    if (ticks % COLLECT_TICKS === 0) await collect(context)
  })
  const failed = (error: unknown) => context.log.warn({ err: error }, 'the machines could not be sampled')
  tickEvery(SAMPLE_MS, tick, failed, signal)
}

export async function sample({ cell_id, db, clock, host }: MeteringContext): Promise<void> {
  const [awake, asleep] = await Promise.all([host.stats(), readSleepers(db, cell_id).then((sleepers) => withDisks(host, sleepers))])
  const machines = new Set(awake.map(({ workspace_id }) => workspace_id))
  // One that was just saved has its machine for a moment longer, and counts once.
  const read = [...awake, ...asleep.filter(({ workspace_id }) => !machines.has(workspace_id))]
  for (let at = 0; at < read.length; at += MACHINES_A_STATEMENT)
    await addSamples(db, read.slice(at, at + MACHINES_A_STATEMENT), clock.now(), 2 * SAMPLE_MS)
}

/** One whose disk is gone was deleted meanwhile. */
async function withDisks(host: Pick<MachineHost, 'measureDisks'>, sleepers: Sleeping[]): Promise<MachineStats[]> {
  const measured: MachineStats[] = []
  for (let at = 0; at < sleepers.length; at += MEASURES_MAX) {
    const part = sleepers.slice(at, at + MEASURES_MAX)
    const disks = await host.measureDisks(part.map(({ workspace_id }) => workspace_id))
    for (const one of part) {
      const disk_bytes = disks.get(one.workspace_id)
      if (disk_bytes !== undefined) measured.push({ ...one, disk_bytes })
    }
  }
  return measured
}

export async function collect({ db, clock, log }: MeteringContext): Promise<void> {
  const now_ms = clock.now().getTime()
  const dropped = await dropOldSamples(
    db,
    new Date(now_ms - LIMITS.usage_sample_days * DAY_MS),
    new Date(now_ms - LIMITS.usage_counter_days * DAY_MS),
  )
  if (dropped > 0) log.info({ dropped }, 'removed usage samples whose time is over')
}
