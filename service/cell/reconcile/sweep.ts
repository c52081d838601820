import type { Logger } from 'pino'
import { logOverdue } from '../../core/workspaces/under-way/overdue.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Executions } from '../filetree/executions/executions.ts'
import { oneAtATime, tickEvery } from '../../lib/poll.ts'

export interface UnderWayContext {
  cell_id: string
  db: Db
  clock: Clock
  log: Logger
  executions: Pick<Executions, 'endAbandoned'>
}

const LOOK_MS = 15_000

/**
 * Works also while the host is away.
 * @param leftovers requests a reconcile pass, because ended work may have left a machine.
 */
export function startSweeping(context: UnderWayContext, leftovers: () => void, signal: AbortSignal): void {
  const told = new Set<string>()
  const failed = (error: unknown) => context.log.warn({ err: error }, 'work under way could not be read')
  const look = oneAtATime(async () => {
    const ended = await context.executions.endAbandoned()
    if (ended > 0) {
      context.log.info({ ended }, 'executions without a process were ended')
      leftovers()
    }
    await logOverdue(context, { by: 'cell', cell_id: context.cell_id }, told)
  })
  tickEvery(LOOK_MS, look, failed, signal)
}
