import { sql, type Expression, type RawBuilder } from 'kysely'
import type { Db } from '../../db/database.ts'
import {
  claiming,
  ended,
  isAsSeen,
  movedColumns,
  movedRow,
  ofAttempt,
  OPERATION_COLUMNS,
  type Claim,
  type Move,
  type OpenOperation,
  type Outcome,
  type Progress,
} from './store.ts'
import { type MachineRow, LostRace } from '../machines/machine-row-store.ts'

// Transactions of store.ts, each in one statement to reduce latency.

export async function moveAsAttempt(
  db: Db,
  operation: OpenOperation,
  now: Date,
  move: Move,
  reached: { step: string; progress: Progress },
): Promise<MachineRow> {
  const taken = ofAttempt(db, operation)
    .set({ updated_at: now, step: reached.step, progress: JSON.stringify(reached.progress) })
    .where(IS_FOUND)
    .returning('id')
  const { rows } = await sql`${withMove(db, held(db, operation), move, now, sql`${taken}`)} select from taken`.execute(db)
  if (rows.length !== 1) throw new LostRace('The operation or its workspace')
  return movedRow(move)
}

export async function moveAndEnd(db: Db, operation: OpenOperation, now: Date, outcome: Outcome, move: Move): Promise<MachineRow> {
  const taken = ofAttempt(db, operation).set(ended(outcome, now)).where(IS_FOUND).returning('id')
  const released = sql`released as (delete from workspace_holds where operation_id in (select id from taken))`
  const { rows } = await sql`${withMove(db, held(db, operation), move, now, sql`${taken}`)}, ${released} select from taken`.execute(db)
  if (rows.length !== 1) throw new LostRace('The operation or its workspace')
  return movedRow(move)
}

/** @returns undefined, and writes nothing, if either row has changed since */
export async function claimAndMove(
  db: Db,
  operation: OpenOperation,
  claim: Claim,
  move: Move,
): Promise<{ operation: OpenOperation; seen: MachineRow } | undefined> {
  const taken = claiming(db, claim).where('o.attempt', '=', operation.attempt).where(IS_FOUND)
  const free = held(db, operation).skipLocked()
  const { rows } =
    await sql<OpenOperation>`${withMove(db, free, move, claim.now, sql`${taken}`)} select ${TAKEN_COLUMNS} from taken`.execute(db)
  return rows[0] && { operation: rows[0], seen: movedRow(move) }
}

// Columns are listed by name: a statement that reads every column does not stay prepared (db/watched-pool.ts).
const TAKEN_COLUMNS = sql.join(OPERATION_COLUMNS.map((name) => sql.ref(name.replace('o.', 'taken.'))))
const IS_FOUND = sql<boolean>`exists (select from found)`

function held(db: Db, { id }: OpenOperation) {
  return db.selectFrom('operations').select('id').where('id', '=', id).where('completed_at', 'is', null).forNoKeyUpdate()
}

/**
 * Changes both rows or none. Locks the operation before the workspace, like all transactions (store.ts).
 * @param taken the statement that changes the operation if IS_FOUND holds, and returns it
 */
function withMove(db: Db, held: Expression<unknown>, move: Move, now: Date, taken: RawBuilder<unknown>): RawBuilder<unknown> {
  const is_held = sql<boolean>`exists (select from held)`
  const found = db.selectFrom('workspaces').select('id').where(isAsSeen(move.seen)).where(is_held).forNoKeyUpdate()
  const moved = db
    .updateTable('workspaces')
    .set(movedColumns(move, now))
    .where('id', '=', sql<string>`(select id from found)`)
    .where(sql<boolean>`exists (select from taken)`)
  return sql`with held as (${held}), found as ${found}, taken as (${taken}), moved as (${moved})`
}
