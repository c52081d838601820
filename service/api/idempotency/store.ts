import { sql } from 'kysely'
import type { AppCode } from '../../../contract/errors.ts'
import { LIMITS } from '../../../contract/limits.ts'
import type { Ignorable } from '../../../contract/schemas/workspaces.ts'
import type { Tx } from '../../db/reader.ts'
import type { Db } from '../../db/database.ts'
import type { Call } from '../../http/call.ts'
import { fail, type Failure } from '../../lib/fail.ts'

/** What a change came to: enough to answer it, and to answer it again. Never a token. */
export interface Outcome {
  status: number
  /** Whose it is: who asks again must still be allowed to know of it. */
  scope: Scope
  /** The body as it was first answered, written out: jsonb would order its fields anew. Absent where an answer has a token. */
  body?: string
  /** What an answer with a token is made from; null on routes without. */
  workspace_id: string | null
  operation_id: string | null
  /** Of an open: what it asked for and the workspace does not have. */
  ignored?: Ignorable[]
}

export interface Scope {
  organization_id: string
  /** null: the organization's. */
  project_id: string | null
}

interface Refused {
  refused: { code: AppCode; reason: string | null; message: string; details: Record<string, unknown> | null; operation_id: string | null }
}

type Kept = Outcome | Refused
type IdempotentCall = Call & { idempotency: NonNullable<Call['idempotency']> }

export function hasKey(call: Call): call is IdempotentCall {
  return call.idempotency !== null
}

/** The outcome of an earlier call with this key. Throws its refusal, or a mismatch when the key was another request's. */
export async function findOutcome(db: Db | Tx, call: IdempotentCall): Promise<Outcome | null> {
  const row = await db
    .selectFrom('idempotency_entries')
    .select(['fingerprint', 'outcome'])
    .where('principal', '=', principalName(call))
    .where('route', '=', call.route.id)
    .where('key', '=', call.idempotency.key)
    .where('created_at', '>', expiry(call.now))
    .executeTakeFirst()
  if (!row) return null
  if (!call.idempotency.matches(row.fingerprint)) {
    throw fail('idempotency_mismatch', null, 'The Idempotency-Key was used for another request')
  }
  const kept = row.outcome as unknown as Kept // written by the two functions below
  if ('refused' in kept) throw refusalOf(kept)
  return kept
}

/**
 * Takes the key for the transaction: whoever comes with it meanwhile is told to try again.
 * @returns the outcome of a call that was complete before this one had the key.
 */
export async function takeKey(tx: Tx, call: IdempotentCall): Promise<Outcome | null> {
  const name = JSON.stringify([principalName(call), call.route.id, call.idempotency.key])
  const { rows } = await sql<{ taken: boolean }>`select pg_try_advisory_xact_lock(hashtextextended(${name}, 1)) as taken`.execute(tx)
  if (!rows[0]?.taken) {
    throw fail('conflict', null, 'A request with this Idempotency-Key is in progress', { retryable: true, retry_after_seconds: 1 })
  }
  return findOutcome(tx, call)
}

export function keepOutcome(tx: Tx, call: IdempotentCall, outcome: Outcome): Promise<void> {
  return keep(tx, call, outcome)
}

/** The call has been answered with this status since: its repeats are, too. */
export async function keepStatus(db: Db, call: IdempotentCall, status: number): Promise<void> {
  await db
    .updateTable('idempotency_entries')
    .set({ outcome: sql`jsonb_set(outcome, '{status}', ${JSON.stringify(status)}::jsonb)` })
    .where('principal', '=', principalName(call))
    .where('route', '=', call.route.id)
    .where('key', '=', call.idempotency.key)
    .where('fingerprint', '=', call.idempotency.fingerprint)
    .execute()
}

/**
 * Keeps what a call was refused with. The transaction that refused it has let go of the key, so another call may have come to something
 * with it since.
 * @returns null when the refusal is kept, else the outcome of the other. Throws its refusal, or the conflict while it is in progress.
 */
export function keepRefusal(db: Db, call: IdempotentCall, failure: Failure): Promise<Outcome | null> {
  const { code, reason = null, message, options } = failure
  const refused = { code: code as AppCode, reason, message, details: options.details ?? null, operation_id: options.operation_id ?? null }
  return db.transaction().execute(async (tx) => {
    const other = await takeKey(tx, call)
    if (other === null) await keep(tx, call, { refused })
    return other
  })
}

/** Only under the key's lock, and where nothing is kept yet. */
async function keep(tx: Tx, call: IdempotentCall, kept: Kept): Promise<void> {
  const entry = { fingerprint: call.idempotency.fingerprint, outcome: JSON.stringify(kept), created_at: call.now }
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('idempotency_entries')
    .values({ principal: principalName(call), route: call.route.id, key: call.idempotency.key, ...entry })
    .onConflict((conflict) =>
      conflict.columns(['principal', 'route', 'key']).doUpdateSet(entry).where('idempotency_entries.created_at', '<=', expiry(call.now)),
    )
    .executeTakeFirst()
  if (numInsertedOrUpdatedRows !== 1n) throw new Error('something is kept already for an Idempotency-Key that is locked')
}

const FORGET_ROWS = 5000
const FORGET_TURNS_MAX = 1000

/** In small statements, since one caller may leave a hundred thousand. @returns how many entries were too old to be kept. */
export async function forgetOutcomes(db: Db, now: Date): Promise<number> {
  let forgotten = 0
  for (let turn = 0; turn < FORGET_TURNS_MAX; turn++) {
    const { numAffectedRows = 0n } = await sql`delete from idempotency_entries where ctid = any(array(
      select ctid from idempotency_entries where created_at <= ${expiry(now)} order by created_at limit ${FORGET_ROWS}))`.execute(db)
    forgotten += Number(numAffectedRows)
    if (numAffectedRows < FORGET_ROWS) break
  }
  return forgotten
}

function expiry(now: Date): Date {
  return new Date(now.getTime() - LIMITS.idempotency.seconds * 1000)
}

function principalName(call: Call): string {
  const who = call.who
  return `${who.type}:${who.id}`
}

function refusalOf({ refused }: Refused): Failure {
  return fail(refused.code, refused.reason, refused.message, {
    ...(refused.details === null ? {} : { details: refused.details }),
    ...(refused.operation_id === null ? {} : { operation_id: refused.operation_id }),
    replayed: true,
  })
}
