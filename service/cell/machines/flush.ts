import type { Logger } from 'pino'
import type { Db } from '../../db/database.ts'
import type { LiveTable } from './live-table.ts'
import { writeActivity } from './store.ts'
import { oneAtATime, tickEvery } from '../../lib/poll.ts'

const FLUSH_MS = 3000

export async function flushActivity(db: Db, table: LiveTable): Promise<void> {
  const { activity, putBack } = table.activity.take()
  if (activity.length === 0) return
  try {
    await writeActivity(db, activity)
  } catch (error) {
    putBack()
    throw error
  }
}

export function startFlushing(db: Db, table: LiveTable, log: Logger, signal: AbortSignal): void {
  const failed = (error: unknown) => log.warn({ err: error }, 'activity could not be written')
  const flush = oneAtATime(() => flushActivity(db, table))
  tickEvery(FLUSH_MS, flush, failed, signal)
}
