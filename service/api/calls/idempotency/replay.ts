import type { Buckets } from '../../../http/buckets.ts'
import type { Call, Reply } from '../../../http/call.ts'
import type { Fingerprints } from '../../../http/headers.ts'
import type { Idempotency } from '../../../http/pipeline.ts'
import { fail } from '../../../lib/fail.ts'
import { maySeeScope, notFound } from '../scope.ts'
import type { CallDeps } from '../deps.ts'
import type { WaitPermit } from '../held-places.ts'
import { answerKept, type Changed } from './change.ts'
import { findOutcome, hasKey, keepRefusal, type Outcome } from './store.ts'

type Answers<Deps> = Readonly<Record<string, (call: never, deps: Deps, outcome: Changed) => Promise<Reply>>>

/**
 * @param answers makes the answers that contain a token, again for each repeat.
 * @param refusals limits stored refusals per caller: a refused call is free, but its row is kept for a day.
 */
export function idempotency<Deps extends Pick<CallDeps, 'db'>>(
  keys: Fingerprints,
  answers: Answers<Deps>,
  refusals: Buckets,
): Idempotency<Deps, WaitPermit> {
  return {
    keys,
    async replay(call: Call, deps) {
      const outcome = hasKey(call) ? await findOutcome(deps.db, call) : null
      return outcome === null ? null : answerAgain(call, deps, outcome)
    },
    async keepRefusal(call, failure, deps) {
      const retry_after_seconds = refusals.take(call.who.id)
      if (retry_after_seconds > 0) throw fail('rate_limited', null, 'Too many of your calls are refused', { retry_after_seconds })
      const outcome = hasKey(call) ? await keepRefusal(deps.db, call, failure) : null
      return outcome === null ? null : answerAgain(call, deps, outcome)
    },
  }

  async function answerAgain(call: Call, deps: Deps, outcome: Outcome): Promise<Reply> {
    // The person may have left the organization since the first call.
    if (!maySeeScope(call.who, outcome.scope)) throw notFound(outcome.workspace_id === null ? 'project' : 'workspace')
    const again = { ...outcome, recorded: false, replayed: true }
    const answer = answers[call.route.id]
    return answer ? answer(call as never, deps, again) : answerKept(again)
  }
}
