import type { Logger } from 'pino'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import { markSeen } from './cells-store.ts'
import { oneAtATime, tickEvery } from '../../lib/poll.ts'

export interface SeenContext {
  cell_id: string
  db: Db
  clock: Clock
  log: Logger
  in_contact(): boolean
}

/** A cell that is silent for a minute gets no new workspaces. */
const SEEN_MS = 15_000

/** Not a part of the reconcile pass, which takes longer with more workspaces, and would report too late. */
export function startHeartbeat(context: SeenContext, signal: AbortSignal): void {
  const { db, cell_id, clock, log } = context
  const failed = (error: unknown) => log.warn({ err: error }, 'the cell could not write its heartbeat')
  const say = oneAtATime(async () => {
    if (context.in_contact()) await markSeen(db, cell_id, clock.now())
  })
  tickEvery(SEEN_MS, say, failed, signal)
}
