import type { Db } from '../../db/database.ts'
import type { Tx } from '../../db/reader.ts'
import { fail } from '../../lib/fail.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { StaleReadError } from './stale-read-error.ts'
import { auditEvent, type Actor, type ChangeOrigin, type AuditTarget } from './audit.ts'
import { insertAuditEventLast } from './store.ts'

declare const recorded: unique symbol

/**
 * Only `mutate` creates this type, and every write of tenant or operator state requires it: no change can be made without its audit record.
 */
export type ChangeTx = Tx & { readonly [recorded]: true }

const actors = new WeakMap<ChangeTx, Actor>()

export function actorOf(tx: ChangeTx): Actor {
  const actor = actors.get(tx)
  if (actor === undefined) throw new Error('a transaction of a change did not come from mutate')
  return actor
}

const TRIES_MAX = 8
const DEADLOCK = '40P01'
/** SQLSTATE that the database raises on an insert into an organization that is being deleted (migration 0042). */
const ENDING = 'BE404'

/**
 * Runs the work and writes its audit record in one transaction. It is retried after a StaleReadError and after a deadlock; after the last
 * try a retryable conflict is thrown.
 * @param subject null: nothing changed, and nothing is recorded.
 */
export async function mutate<Result>(
  db: Db,
  by: ChangeOrigin,
  action: string,
  work: (tx: ChangeTx) => Promise<Result>,
  subject: AuditTarget | ((result: Result) => AuditTarget | null),
): Promise<Result> {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    try {
      return await db.transaction().execute(async (tx) => {
        actors.set(tx as ChangeTx, by.actor)
        const result = await work(tx as ChangeTx)
        const changed = typeof subject === 'function' ? subject(result) : subject
        if (changed === null) return result
        await failpoint('change.C1')
        await insertAuditEventLast(tx, auditEvent(by, action, changed))
        await failpoint('change.C2')
        return result
      })
    } catch (error) {
      const { code } = error as { code?: unknown }
      if (code === ENDING) throw fail('not_found', null, 'There is no such organization', { cause: error })
      if (!(error instanceof StaleReadError) && code !== DEADLOCK) throw error
    }
  }
  throw fail('conflict', null, 'Other requests are changing the same at this moment', { retryable: true, retry_after_seconds: 1 })
}
