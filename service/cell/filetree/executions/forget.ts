import type { Logger } from 'pino'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Db } from '../../../db/database.ts'
import type { Clock } from '../../../lib/clock.ts'
import { whileClockStable } from '../../../lib/stable-clock.ts'
import { oneAtATime, tickEvery } from '../../../lib/poll.ts'
import { dropOldExecutions } from './store.ts'

interface ForgetContext {
  cell_id: string
  db: Db
  clock: Clock
  log: Logger
}

const LOOK_MS = 10 * 60_000
const DAY_MS = 24 * 3600_000

export function startResultExpiry(context: ForgetContext, signal: AbortSignal): void {
  const failed = (error: unknown) => context.log.warn({ err: error }, 'results of executions could not be removed')
  const look = oneAtATime(() => forgetResults(context))
  tickEvery(LOOK_MS, whileClockStable(context.clock, context.log, 'removal of results', look), failed, signal)
}

export async function forgetResults({ cell_id, db, clock }: ForgetContext): Promise<void> {
  const before = new Date(clock.now().getTime() - LIMITS.execution.kept_days * DAY_MS)
  while ((await dropOldExecutions(db, cell_id, before)) > 0);
}
