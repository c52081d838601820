import { sql } from 'kysely'
import type { AppCode } from '../../../../contract/errors.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Ignorable } from '../../../../contract/schemas/workspaces.ts'
import type { Tx } from '../../../db/reader.ts'
import type { Db } from '../../../db/database.ts'
import type { Call } from '../../../http/call.ts'
import { fail, type Failure } from '../../../lib/fail.ts'

/** A stored outcome never contains a token. */
export interface Outcome {
  status: number
  /** A repeating caller must still have access to this scope. */
  scope: Scope
  /** Text, because jsonb would reorder the fields. Absent if the answer contains a token. */
  body?: string
  /** Set only if the answer contains a token. */
  workspace_id: string | null
  operation_id: string | null
  ignored?: Ignorable[]
}

export interface Scope {
  organization_id: string
  /** null: the whole organization. */
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

/** @throws the stored refusal, or a mismatch if the key was used for another request */
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
  const kept = row.outcome as unknown as Kept // only keepOutcome and keepRefusal insert this value
  if ('refused' in kept) throw refusalOf(kept)
  return kept
}

/**
 * Locks the key; a concurrent call with the same key is refused and may retry.
 * @returns the outcome of an earlier call.
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

/** Stores the status that the caller received, so that repeats get the same one. */
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
 * The refusing transaction has released the key, so another call may have completed with it.
 * @returns null if stored, else the other call's outcome. Throws its refusal, or the conflict while it is in progress.
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

/** Requires the key's lock and no stored outcome. */
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

/** Deletes in small statements: one caller may have a hundred thousand entries. */
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
