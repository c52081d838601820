import type { Logger } from 'pino'
import { linkEvents } from '../../core/changes/chain-store.ts'
import type { Db } from '../../db/database.ts'

const LOOK_MS = 500

/** Links what is recorded, every half second, until it is closed (decision 242). */
export function startLinker({ db, logger }: { db: Db; logger: Logger }): { close(): Promise<void> } {
  let closed = false
  let working: Promise<void> | null = null
  const look = () => {
    working ??= linkEvents(db, () => closed)
      .then(() => undefined)
      .catch((error: unknown) => logger.warn({ err: error }, 'records of changes were not linked'))
      .finally(() => {
        working = null
      })
  }
  const timer = setInterval(look, LOOK_MS)
  timer.unref()
  return {
    async close() {
      closed = true
      clearInterval(timer)
      await working
    },
  }
}
