import type { Subject } from '../../core/changes/audit.ts'
import { mutate, type ChangeTx } from '../../core/changes/mutate.ts'
import { readerOf, type Reader } from '../../db/reader.ts'
import type { Call, Reply } from '../../http/call.ts'
import { byCaller, type Changing } from '../by-caller.ts'
import type { ApiDeps } from '../deps.ts'
import { hasKey, keepOutcome, takeKey, type Outcome } from './store.ts'

/** What the work of a change has come to. */
export interface Worked extends Omit<Outcome, 'body'> {
  /** Null: it found what there is already, and wrote nothing. */
  changed: Pick<Subject, 'kind' | 'id' | 'details'> | null
}

export type Work<W extends Worked = Worked> = (tx: ChangeTx) => Promise<W>

/** Makes the body of an answer without a token, from what is there. */
export type Render<W extends Worked = Worked> = (reads: Reader, worked: W) => Promise<unknown>

/** An outcome, and how it came to be this call's. */
export interface Changed extends Outcome {
  /** Whether this call has changed something, and left a record of it. */
  recorded: boolean
  /** It is that of an earlier call with the same Idempotency-Key. */
  replayed: boolean
}

/**
 * A change of a caller's with its record, in one transaction, when it is its tenant's turn. The record names the route's id as the action.
 * @param subject of the work's result; null where nothing was changed.
 */
export function changing<Result>(
  deps: ApiDeps,
  call: Changing & Pick<Call, 'signal' | 'route'>,
  work: (tx: ChangeTx) => Promise<Result>,
  subject: (result: Result) => Subject | null,
): Promise<Result> {
  deps.change_rate(call)
  return deps.turns.run(call, () => mutate(deps.db, byCaller(deps, call), call.route.id, work, subject))
}

/**
 * Makes a change and keeps its outcome for the Idempotency-Key in one transaction: both are there, or neither. So is the body of its
 * answer, where `render` makes one: a process that dies before it answers leaves the answer that its repeats get.
 */
export async function change<W extends Worked>(deps: ApiDeps, call: Call, work: Work<W>, render?: Render<W>): Promise<Changed> {
  const { outcome, worked } = await changing(
    deps,
    call,
    async (tx) => {
      const earlier = hasKey(call) ? await takeKey(tx, call) : null
      if (earlier) return { outcome: earlier, worked: null }
      const worked = await work(tx)
      const body = render ? { body: JSON.stringify(await render(readerOf(tx), worked)) } : {}
      const { status, scope, workspace_id, operation_id, ignored } = worked
      const outcome: Outcome = { status, scope, workspace_id, operation_id, ...(ignored === undefined ? {} : { ignored }), ...body }
      if (hasKey(call)) await keepOutcome(tx, call, outcome)
      return { outcome, worked }
    },
    ({ worked }) => (worked?.changed ? { ...worked.scope, ...worked.changed } : null),
  )
  return { ...outcome, recorded: worked !== null && worked.changed !== null, replayed: worked === null }
}

/** Answers what a change has kept: the first call and every repeat get the same bytes (App, "Limits": responses are stored). */
export function answerKept({ status, body, replayed }: Outcome & { replayed: boolean }): Reply {
  if (body === undefined) throw new Error('an answer was not kept, and nobody says how to make it again')
  return { status, json: body, headers: repeatHeaders(replayed) }
}

/** Makes a change and answers it with what it has kept. */
export async function changeAndAnswer<W extends Worked>(deps: ApiDeps, call: Call, work: Work<W>, render: Render<W>): Promise<Reply> {
  return answerKept(await change(deps, call, work, render))
}

/** On every answer that is an earlier one's. */
export function repeatHeaders(replayed: boolean): Record<string, string> {
  return replayed ? { 'idempotent-replayed': 'true' } : {}
}
