import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import { MEASURES_MAX } from '../../../contract/internal/host-disks.ts'
import type { MachineCounters } from '../../../contract/internal/host-inventory.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import { whileClockStable } from '../../lib/stable-clock.ts'
import type { MachineHost, MachineStats } from '../host/hostd.ts'
import { oneAtATime, tickEvery } from '../../lib/poll.ts'
import { judgeAllowances, type JudgeContext } from './allowances.ts'
import { attributeToWorkspaces } from './attributed.ts'
import { readTreeBytes } from './tree-store.ts'
import { closeHours, markMeasured } from './ledger-store.ts'
import { addSamples, addStored, dropOldSamples, type Mark, readHibernated, readStored, type HibernatedCounters } from './store.ts'
import { addStoredVolumes, dropOldVolumeSamples, readVolumesOf } from './volume-store.ts'

export interface MeteringContext {
  cell_id: string
  db: Db
  clock: Clock
  host: MachineHost
  log: Logger
}

export const SAMPLE_MS = 15_000
const MACHINES_A_STATEMENT = 500
const HOUR_MS = 3600_000
const DAY_MS = 24 * HOUR_MS
const STORAGE_TICKS = 20 // five minutes: storage changes slowly, and there are many more workspaces than machines
const COLLECT_TICKS = 40 // ten minutes
const RUN = randomUUID()

/**
 * Usage after the last reading is reported with the machine's end, through addFinal.
 * A failing host or organization does not block the ledger.
 */
export function startMetering(context: MeteringContext & JudgeContext, signal: AbortSignal): void {
  const failed = (error: unknown) => context.log.warn({ err: error }, 'a part of the metering failed')
  const removeOld = whileClockStable(context.clock, context.log, 'removal of samples', () => collect(context))
  let ticks = 0
  const tick = oneAtATime(async () => {
    ticks += 1
    const machines = await sample(context).catch(failed)
    await judgeAllowances(context).catch(failed)
    if (ticks % STORAGE_TICKS === 0 && machines !== undefined)
      await Promise.all([sampleStorage(context, machines).catch(failed), sampleVolumes(context).catch(failed)])
    if (ticks % COLLECT_TICKS !== 0) return
    await closeLedger(context).catch(failed)
    // Only after a successful sample: if a machine's counters were removed, its next reading would count from zero.
    if (machines !== undefined) await removeOld().catch(failed)
  })
  tickEvery(SAMPLE_MS, tick, failed, signal)
}

export async function sample({ cell_id, db, clock, host }: MeteringContext): Promise<Set<string>> {
  const [counters, asleep] = await Promise.all([host.stats(), readHibernated(db, cell_id).then((sleepers) => withDisks(host, sleepers))])
  const awake = await attributeToWorkspaces(db, counters)
  const machines = new Set(awake.map(({ workspace_id }) => workspace_id))
  // A machine that was just saved may still run: its workspace counts once.
  const read = [...awake, ...asleep.filter(({ workspace_id }) => !machines.has(workspace_id))]
  for (let at = 0; at < read.length; at += MACHINES_A_STATEMENT)
    await addSamples(db, read.slice(at, at + MACHINES_A_STATEMENT), clock.now(), 2 * SAMPLE_MS, markOf(clock))
  await markMeasured(db, cell_id, clock.now())
  return new Set(read.map(({ workspace_id }) => workspace_id))
}

export async function closeLedger({ db, clock }: Pick<MeteringContext, 'db' | 'clock'>): Promise<number> {
  const now = clock.now()
  const before = new Date(now.getTime() - (LIMITS.usage.final_after_hours + 1) * HOUR_MS)
  let count = 0
  for (const kind of ['workspace', 'volume'] as const) {
    for (let is_all = false; !is_all;) {
      const done = await closeHours(db, kind, before, now)
      is_all = done.is_all
      count += done.closed
    }
  }
  return count
}

/** Meters stored disks, checkpoints and trees (Cell, "File-first rules" 8). */
export async function sampleStorage({ cell_id, db, clock, host }: MeteringContext, machines: ReadonlySet<string>): Promise<void> {
  const [stored, trees] = await Promise.all([readStored(db, cell_id), readTreeBytes(db, cell_id)])
  for (let at = 0; at < stored.length; at += MEASURES_MAX) {
    const part = stored.slice(at, at + MEASURES_MAX)
    const at_rest = part.map(({ workspace_id }) => workspace_id).filter((id) => !machines.has(id) && !trees.has(id))
    const disks = at_rest.length === 0 ? new Map<string, number>() : await host.measureDisks(at_rest)
    const read = part.map((one) => ({ ...one, disk_bytes: disks.get(one.workspace_id) ?? trees.get(one.workspace_id) ?? null }))
    await addStored(db, read, clock.now(), markOf(clock))
  }
}

export async function sampleVolumes({ cell_id, db, clock, host }: MeteringContext): Promise<void> {
  const ids = await readVolumesOf(db, cell_id)
  for (let at = 0; at < ids.length; at += MEASURES_MAX) {
    const measured = await host.measureVolumes(ids.slice(at, at + MEASURES_MAX))
    const read = [...measured].map(([volume_id, stored_bytes]) => ({ volume_id, stored_bytes }))
    await addStoredVolumes(db, read, clock.now(), markOf(clock))
  }
}

function markOf(clock: Clock): Mark {
  return { run: RUN, monotonic_ms: clock.monotonic_ms() }
}

export async function addFinal({ db, clock }: Pick<MeteringContext, 'db' | 'clock'>, read: MachineCounters[]): Promise<void> {
  await addSamples(db, await attributeToWorkspaces(db, read), clock.now(), 2 * SAMPLE_MS, markOf(clock))
}

/** Leaves out hibernated machines without a disk, because they have been deleted. */
async function withDisks(host: Pick<MachineHost, 'measureDisks'>, sleepers: HibernatedCounters[]): Promise<MachineStats[]> {
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

export async function collect({ cell_id, db, clock, log }: MeteringContext): Promise<void> {
  const now_ms = clock.now().getTime()
  const dropped = await dropOldSamples(
    db,
    cell_id,
    new Date(now_ms - LIMITS.usage.sample_days * DAY_MS),
    new Date(now_ms - LIMITS.usage.counter_days * DAY_MS),
  )
  const volumes_dropped = await dropOldVolumeSamples(db, new Date(now_ms - LIMITS.usage.sample_days * DAY_MS))
  if (dropped + volumes_dropped > 0) log.info({ dropped, volumes_dropped }, 'removed expired usage samples')
}
