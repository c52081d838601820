import type { Logger } from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import { BATCH, dropExpiredCheckpoints, dropTombstones } from './expiry-store.ts'
import { dropExpiredCredentials, EXPIRED_BATCH } from '../ports/store.ts'
import { forgetLogs } from '../builds/store.ts'
import { tickEvery } from './ticking.ts'

export interface ExpiryContext {
  db: Db
  clock: Clock
  log: Logger
}

const EXPIRE_MS = 10 * 60_000
const DAY_MS = 24 * 3600_000
/** Of each kind in one tick: what is over then waits for the next. That is 4,000 workspaces in ten minutes. */
const BATCHES_A_TICK = 20

/** Removes rows whose time is over, every ten minutes. */
export function startExpiry(context: ExpiryContext, signal: AbortSignal): void {
  const failed = (error: unknown) => context.log.warn({ err: error }, 'expired rows could not be removed')
  tickEvery(EXPIRE_MS, () => expire(context), failed, signal)
}

export async function expire({ db, clock, log }: ExpiryContext): Promise<void> {
  const now_ms = clock.now().getTime()
  const deleted_before = new Date(now_ms - LIMITS.workspace.tombstone_days * DAY_MS)
  const checkpoints = await inBatches(BATCH.checkpoints, () => dropExpiredCheckpoints(db, new Date(now_ms), deleted_before))
  if (checkpoints > 0) log.info({ checkpoints }, 'removed expired checkpoints')
  const expired_before = new Date(now_ms - LIMITS.port.expired_kept_seconds * 1000)
  const credentials = await inBatches(EXPIRED_BATCH, () => dropExpiredCredentials(db, expired_before))
  if (credentials > 0) log.info({ credentials }, 'removed expired credentials of ports')
  await forgetLogs(db, new Date(now_ms - LIMITS.template_build.log_seconds * 1000))
  const tombstones = await inBatches(BATCH.tombstones, () => dropTombstones(db, deleted_before))
  if (tombstones > 0) log.info({ tombstones }, 'removed tombstones')
}

/** Until a batch is not full, or the tick's share is done. @returns how many went. */
async function inBatches(batch: number, drop: () => Promise<number>): Promise<number> {
  let total = 0
  for (let round = 0; round < BATCHES_A_TICK; round++) {
    const dropped = await drop()
    total += dropped
    if (dropped < batch) break
  }
  return total
}
