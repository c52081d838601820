import type { Logger } from 'pino'
import { tellOverdue } from '../../core/under-way/overdue.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Executions } from '../executions/executions.ts'
import { oneAtATime, tickEvery } from '../machines/ticking.ts'

export interface UnderWayContext {
  cell_id: string
  db: Db
  clock: Clock
  log: Logger
  executions: Pick<Executions, 'endAbandoned'>
}

const LOOK_MS = 15_000

/**
 * Compares what rows say is under way with what works on it. The host's part, machines and captures of builds, is compared where the host is
 * (`machines/reconcile.ts`); this looks at the rest, also while the host is away.
 * @param leftovers has the host compared: what has ended may have left a machine.
 */
export function startSweeping(context: UnderWayContext, leftovers: () => void, signal: AbortSignal): void {
  const told = new Set<string>()
  const failed = (error: unknown) => context.log.warn({ err: error }, 'what is under way could not be looked at')
  const look = oneAtATime(async () => {
    const ended = await context.executions.endAbandoned()
    if (ended > 0) {
      context.log.info({ ended }, 'executions that nothing worked on have ended')
      leftovers()
    }
    await tellOverdue(context, { by: 'cell', cell_id: context.cell_id }, told)
  })
  tickEvery(LOOK_MS, look, failed, signal)
}
