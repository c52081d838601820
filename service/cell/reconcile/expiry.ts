import type { Logger } from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import { whileClockStable } from '../../lib/stable-clock.ts'
import { BATCH, dropExpiredCheckpoints, dropTombstones } from './expiry-store.ts'
import { dropExpiredCredentials, EXPIRED_BATCH } from '../ports/store.ts'
import { forgetBuilds } from '../operations/builds/store.ts'
import { dropOldAgentSessions, dropOldOperations, nextWorkspaces } from './history-store.ts'
import { dropDeletedVolumes } from '../operations/volumes/store.ts'
import { tickEvery } from '../../lib/poll.ts'

export interface ExpiryContext {
  cell_id: string
  db: Db
  clock: Clock
  log: Logger
}

const EXPIRE_MS = 10 * 60_000
const DAY_MS = 24 * 3600_000
/** Batches of each kind, enough for 4,000 workspaces in ten minutes. */
const BATCHES_A_TICK = 20
const WORKSPACES_A_TICK = 500

export function startExpiry(context: ExpiryContext, signal: AbortSignal): void {
  const failed = (error: unknown) => context.log.warn({ err: error }, 'expired rows could not be removed')
  let after: string | null = null
  const tick = async () => {
    await expire(context)
    after = await forgetHistories(context, after)
  }
  tickEvery(EXPIRE_MS, whileClockStable(context.clock, context.log, 'removal of expired rows', tick), failed, signal)
}

/**
 * Keeps the newest of each. A cell with 70,000 workspaces is done within a day.
 * @returns the last workspace that was done; null: the next tick begins with the first.
 */
export async function forgetHistories({ cell_id, db, clock }: Omit<ExpiryContext, 'log'>, after: string | null): Promise<string | null> {
  const before = new Date(clock.now().getTime() - LIMITS.workspace.tombstone_days * DAY_MS)
  const ids = await nextWorkspaces(db, cell_id, after, WORKSPACES_A_TICK)
  const operations = await untilDone(() => dropOldOperations(db, ids, before))
  const agent_sessions = await untilDone(() => dropOldAgentSessions(db, ids, before))
  if (!operations || !agent_sessions) return after // repeated in the next tick
  return ids.length < WORKSPACES_A_TICK ? null : (ids.at(-1) ?? null)
}

/** @returns false if the tick's limit was reached before the end. */
async function untilDone(drop: () => Promise<boolean>): Promise<boolean> {
  for (let round = 0; round < BATCHES_A_TICK; round++) if (!(await drop())) return true
  return false
}

export async function expire({ db, clock, log }: Omit<ExpiryContext, 'cell_id'>): Promise<void> {
  const now_ms = clock.now().getTime()
  const deleted_before = new Date(now_ms - LIMITS.workspace.tombstone_days * DAY_MS)
  const checkpoints = await inBatches(BATCH.checkpoints, () => dropExpiredCheckpoints(db, new Date(now_ms), deleted_before))
  if (checkpoints > 0) log.info({ checkpoints }, 'removed expired checkpoints')
  const expired_before = new Date(now_ms - LIMITS.port.expired_kept_seconds * 1000)
  const credentials = await inBatches(EXPIRED_BATCH, () => dropExpiredCredentials(db, expired_before))
  if (credentials > 0) log.info({ credentials }, 'removed expired credentials of ports')
  await forgetBuilds(db, new Date(now_ms - LIMITS.template_build.log_seconds * 1000))
  const volumes = await inBatches(BATCH.tombstones, () => dropDeletedVolumes(db, deleted_before))
  if (volumes > 0) log.info({ volumes }, 'removed rows of deleted volumes')
  const tombstones = await inBatches(BATCH.tombstones, () => dropTombstones(db, deleted_before))
  if (tombstones > 0) log.info({ tombstones }, 'removed tombstones')
}

async function inBatches(batch: number, drop: () => Promise<number>): Promise<number> {
  let total = 0
  for (let round = 0; round < BATCHES_A_TICK; round++) {
    const dropped = await drop()
    total += dropped
    if (dropped < batch) break
  }
  return total
}
