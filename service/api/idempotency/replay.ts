import type { Buckets } from '../../http/buckets.ts'
import type { Call, Reply } from '../../http/call.ts'
import type { Idempotency } from '../../http/pipeline.ts'
import { fail } from '../../lib/fail.ts'
import type { ApiDeps } from '../deps.ts'
import type { HeldPlace } from '../held-places.ts'
import { findWorkspace } from '../workspaces/find.ts'
import { findOutcome, hasKey, keepRefusal, type Outcome } from './store.ts'

type Answers = Readonly<Record<string, (call: never, deps: ApiDeps, outcome: Outcome) => Promise<Reply>>>

/**
 * The pipeline's view of what is kept for Idempotency-Keys.
 * @param refusals how many a caller may have kept: they cost it nothing else, and each is a row for a day.
 */
export function idempotency(secret: Buffer, answers: Answers, refusals: Buckets): Idempotency<ApiDeps, HeldPlace> {
  return {
    secret,
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

  async function answerAgain(call: Call, deps: ApiDeps, outcome: Outcome): Promise<Reply> {
    const answer = answers[call.route.id]
    // A project is an API key's for good; a person may have left the organization since.
    if (call.who.type === 'user') await findWorkspace(deps, { who: call.who, params: { workspace_id: outcome.workspace_id } })
    if (!answer) throw new Error(`${call.route.id} is idempotent but says not how to answer a repeat`)
    return answer(call as never, deps, outcome)
  }
}
