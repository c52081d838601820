import type { AuditTarget } from '../../../core/changes/audit.ts'
import { mutate, type ChangeTx } from '../../../core/changes/mutate.ts'
import { readerOf, type Reader } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { byCaller, type Changing } from '../by-caller.ts'
import { hasKey, keepOutcome, takeKey, type Outcome } from './store.ts'
import type { ChangeDeps } from '../deps.ts'

export interface CommandResult extends Omit<Outcome, 'body'> {
  /** null: nothing was written. */
  changed: Pick<AuditTarget, 'kind' | 'id' | 'details'> | null
}

export type Work<W extends CommandResult = CommandResult> = (tx: ChangeTx) => Promise<W>

/** Makes the answer from the stored rows. */
export type Render<W extends CommandResult = CommandResult> = (reads: Reader, worked: W) => Promise<unknown>

export interface Changed extends Outcome {
  recorded: boolean
  replayed: boolean
}

/** @param subject null if nothing changed. */
export function changing<Result>(
  deps: ChangeDeps,
  call: Changing & Pick<Call, 'signal' | 'route'>,
  work: (tx: ChangeTx) => Promise<Result>,
  subject: (result: Result) => AuditTarget | null,
): Promise<Result> {
  deps.change_rate(call)
  return deps.turns.run(call, () => mutate(deps.db, byCaller(deps, call), call.route.id, work, subject))
}

/** Stores the outcome with the change: a repeat gets it even if this process dies before answering. */
export async function change<W extends CommandResult>(deps: ChangeDeps, call: Call, work: Work<W>, render?: Render<W>): Promise<Changed> {
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

/** The same bytes for the first call and every repeat (App, "Limits"). */
export function answerKept({ status, body, replayed }: Outcome & { replayed: boolean }): Reply {
  if (body === undefined) throw new Error('an answer was not kept, and nobody says how to make it again')
  return { status, json: body, headers: repeatHeaders(replayed) }
}

export async function changeAndAnswer<W extends CommandResult>(
  deps: ChangeDeps,
  call: Call,
  work: Work<W>,
  render: Render<W>,
): Promise<Reply> {
  return answerKept(await change(deps, call, work, render))
}

export function repeatHeaders(replayed: boolean): Record<string, string> {
  return replayed ? { 'idempotent-replayed': 'true' } : {}
}
