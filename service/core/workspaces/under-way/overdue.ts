import type { Logger } from 'pino'
import type { Db } from '../../../db/database.ts'
import type { Clock } from '../../../lib/clock.ts'
import { kindsOf } from './kinds.ts'
import { readOverdue } from './store.ts'

type Worker = { by: 'cell'; cell_id: string } | { by: 'api'; cell_id: null }

interface OverdueContext {
  db: Db
  clock: Clock
  log: Pick<Logger, 'error'>
}

/**
 * Logs work beyond its deadline once.
 * @param told rows that this process has already logged; updated in place.
 */
export async function logOverdue({ db, clock, log }: OverdueContext, { by, cell_id }: Worker, told: Set<string>): Promise<void> {
  const overdue = new Set<string>()
  for (const [kind, { deadline_seconds, worker }] of kindsOf(by)) {
    const before = new Date(clock.now().getTime() - deadline_seconds * 1000)
    for (const { id, since } of await readOverdue(db, cell_id, kind, before)) {
      overdue.add(`${kind} ${id}`)
      if (!told.has(`${kind} ${id}`)) log.error({ kind, id, since, worker }, 'work has been under way for too long')
    }
  }
  told.clear()
  for (const one of overdue) told.add(one)
}
