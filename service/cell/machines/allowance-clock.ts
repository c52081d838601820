import type { Logger } from 'pino'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Ids } from '../../lib/ids.ts'
import { beginBySystem, readExhausted } from './idle-store.ts'
import { oneAtATime, tickEvery } from '../../lib/poll.ts'

export interface AllowanceContext {
  cell_id: string
  db: Db
  clock: Clock
  ids: Ids
  log: Logger
}

const LOOK_MS = 5000
/** Pause after a failed suspend, since its cause may persist. */
const AGAIN_MS = 60_000

/** Suspends workspaces without allowance (App, "Workspace observed state"). */
export function startAllowanceClock(context: AllowanceContext, signal: AbortSignal): void {
  const failed = (error: unknown) => context.log.warn({ err: error }, 'used-up allowances could not be read')
  const look = oneAtATime(() => lookAtAllowances(context))
  tickEvery(LOOK_MS, look, failed, signal)
}

/** Workspaces with open sessions are suspended too: the next open resumes them. */
export async function lookAtAllowances({ cell_id, db, clock, ids, log }: AllowanceContext): Promise<void> {
  const now = clock.now()
  for (const workspace_id of await readExhausted(db, cell_id, new Date(now.getTime() - AGAIN_MS))) {
    const operation = { id: ids.next(), kind: 'suspend' as const, input: { reason: 'allowance_exhausted' } }
    const begun = await beginBySystem({ db, ids }, workspace_id, () => operation, now, 'suspend')
    if (begun) log.info({ workspace_id, operation_id: operation.id }, 'the allowance is used up: suspend')
  }
}
