import type { Call, Reply } from '../../http/call.ts'
import type { Idempotency } from '../../http/pipeline.ts'
import type { ApiDeps } from '../deps.ts'
import { findOutcome, hasKey, keepRefusal, type Outcome } from './store.ts'

type Answers = Readonly<Record<string, (call: never, deps: ApiDeps, outcome: Outcome) => Promise<Reply>>>

/** The pipeline's view of what is kept for Idempotency-Keys. */
export function idempotency(secret: Buffer, answers: Answers): Idempotency<ApiDeps, undefined> {
  return {
    secret,
    async replay(call: Call, deps) {
      const outcome = hasKey(call) ? await findOutcome(deps.db, call) : null
      if (outcome === null) return null
      const answer = answers[call.route.id]
      if (!answer) throw new Error(`${call.route.id} is idempotent but says not how to answer a repeat`)
      return answer(call as never, deps, outcome)
    },
    async keepRefusal(call, failure, deps) {
      if (hasKey(call)) await keepRefusal(deps.db, call, failure)
    },
  }
}
