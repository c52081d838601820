import type { Logger } from 'pino'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import { markSeen } from './cells-store.ts'
import { oneAtATime, tickEvery } from './ticking.ts'

export interface SeenContext {
  cell_id: string
  db: Db
  clock: Clock
  log: Logger
  /** Whether the machine host was last known to be there. */
  in_contact(): boolean
}

/** A cell that has said nothing for a minute gets no new workspaces: it says so often enough that one lost time does not matter. */
const SEEN_MS = 15_000

/** Says that the cell lives, and its host with it. A comparison of both takes as long as there are workspaces, and does not say it in time. */
export function startSeen(context: SeenContext, signal: AbortSignal): void {
  const { db, cell_id, clock, log } = context
  const failed = (error: unknown) => log.warn({ err: error }, 'the cell could not say that it lives')
  const say = oneAtATime(async () => {
    if (context.in_contact()) await markSeen(db, cell_id, clock.now())
  })
  tickEvery(SEEN_MS, say, failed, signal)
}
