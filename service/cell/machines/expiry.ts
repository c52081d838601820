import type { Logger } from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import { dropExpiredCheckpoints, dropIdempotencyEntries, dropTombstones } from './expiry-store.ts'

export interface ExpiryContext {
  db: Db
  clock: Clock
  log: Logger
}

const EXPIRE_MS = 10 * 60_000
const DAY_MS = 24 * 3600_000

/** Removes rows whose time is over, every ten minutes. */
export function startExpiry(context: ExpiryContext, signal: AbortSignal): void {
  const timer = setInterval(() => {
    expire(context).catch((error: unknown) => context.log.warn({ err: error }, 'expired rows could not be removed'))
  }, EXPIRE_MS)
  timer.unref()
  signal.addEventListener('abort', () => clearInterval(timer), { once: true })
}

export async function expire({ db, clock, log }: ExpiryContext): Promise<void> {
  const now_ms = clock.now().getTime()
  await dropIdempotencyEntries(db, new Date(now_ms - LIMITS.idempotency_seconds * 1000))
  const checkpoints = await dropExpiredCheckpoints(db, new Date(now_ms))
  if (checkpoints > 0) log.info({ checkpoints }, 'removed expired checkpoints')
  const tombstones = await dropTombstones(db, new Date(now_ms - LIMITS.tombstone_days * DAY_MS))
  if (tombstones > 0) log.info({ tombstones }, 'removed tombstones')
}
