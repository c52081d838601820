import { readerOf, type Tx } from '../../db/reader.ts'
import type { Call } from '../../http/call.ts'
import { fail } from '../../lib/fail.ts'
import type { ApiDeps } from '../deps.ts'
import { hasKey, keepOutcome, takeKey, type Outcome, type Render } from './store.ts'

/** Thrown inside a change: what it had seen is no longer so. The whole transaction is tried again. */
export class Again extends Error {}

export type Work = (tx: Tx) => Promise<Outcome>

const TRIES_MAX = 8
const DEADLOCK = '40P01'

/** A transaction of a caller's, when it is its tenant's turn. */
export function changing<Result>(deps: ApiDeps, call: Pick<Call, 'who' | 'signal'>, work: (tx: Tx) => Promise<Result>): Promise<Result> {
  return deps.turns.run(call, () => deps.db.transaction().execute(work))
}

/**
 * Makes a change and keeps its outcome for the Idempotency-Key in one transaction: both are there, or neither. So is the body of its
 * answer, where `render` makes one: a process that dies before it answers leaves the answer that its repeats get.
 */
export async function change(deps: ApiDeps, call: Call, work: Work, render?: Render): Promise<Outcome> {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    try {
      return await changing(deps, call, async (tx) => {
        const earlier = hasKey(call) ? await takeKey(tx, call) : null
        if (earlier) return earlier
        const worked = await work(tx)
        const outcome = render ? { ...worked, body: JSON.stringify(await render(readerOf(tx), worked)) } : worked
        if (hasKey(call)) await keepOutcome(tx, call, outcome)
        return outcome
      })
    } catch (error) {
      if (!(error instanceof Again) && (error as { code?: unknown }).code !== DEADLOCK) throw error
    }
  }
  throw fail('conflict', null, 'Other requests are changing the same at this moment', { retryable: true, retry_after_seconds: 1 })
}
