import type { Logger } from 'pino'
import { linkEvents } from '../../../core/changes/chain-store.ts'
import type { Db } from '../../../db/database.ts'
import { startPoller, type Poller } from '../../../lib/poll.ts'

const LOOK_MS = 500

/** Adds audit records to the hash chain (decision 242). */
export function startChainWorker({ db, logger }: { db: Db; logger: Logger }): Poller {
  return startPoller({
    every_ms: LOOK_MS,
    look: (stopped) => linkEvents(db, stopped),
    failed: (error) => logger.warn({ err: error }, 'records of changes were not linked'),
  })
}
