import { sql, type Selectable } from 'kysely'
import type { ExportFailure } from '../../../../contract/schemas/exports.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Db } from '../../../db/database.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Database } from '../../../db/schema.ts'
import type { Page } from '../../calls/pages.ts'

export type ExportRow = Selectable<Database['exports']>
export type ExportOwner = { organization_id: string } | { person_id: string }

const COLUMNS =
  'id, organization_id, requested_by, state, failure, attempt, next_try_at, size_bytes, sha256, created_at, completed_at, expires_at'

/** @returns false if the same export is in progress. */
export async function insertExport(
  tx: ChangeTx,
  { id, organization_id, requested_by }: Pick<ExportRow, 'id' | 'organization_id' | 'requested_by'>,
  now: Date,
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('exports')
    .values({ id, organization_id, requested_by, state: 'queued', next_try_at: now, created_at: now, ...NOTHING_YET })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows === 1n
}

const NOTHING_YET = { failure: null, size_bytes: null, sha256: null, completed_at: null, expires_at: null }

function whoseText(whose: ExportOwner): { text: string; id: string } {
  return 'organization_id' in whose
    ? { text: 'organization_id = $1', id: whose.organization_id }
    : { text: 'organization_id is null and requested_by = $1', id: whose.person_id }
}

export async function readUnderWay(reads: Reader, whose: ExportOwner): Promise<ExportRow | undefined> {
  const { text, id } = whoseText(whose)
  const name = `exports.under_way:${'organization_id' in whose ? 'o' : 'p'}`
  const under_way = `select ${COLUMNS} from exports where ${text} and state in ('queued', 'running')`
  return (await reads.rows<ExportRow>(name, under_way, [id]))[0]
}

export async function readExport(reads: Reader, whose: ExportOwner, export_id: string): Promise<ExportRow | undefined> {
  const { text, id } = whoseText(whose)
  const name = `exports.one:${'organization_id' in whose ? 'o' : 'p'}`
  return (await reads.rows<ExportRow>(name, `select ${COLUMNS} from exports where ${text} and id = $2`, [id, export_id]))[0]
}

export function listExports(reads: Reader, whose: ExportOwner, { below, limit }: Page): Promise<ExportRow[]> {
  const { text, id } = whoseText(whose)
  const first = below === null
  return reads.rows(
    `exports.list:${'organization_id' in whose ? 'o' : 'p'}${first ? '' : ':b'}`,
    `select ${COLUMNS} from exports where ${text} ${first ? '' : 'and uuid_send(id) < uuid_send($3::uuid)'} order by uuid_send(id) desc limit $2`,
    [id, limit + 1, ...(first ? [] : [below])],
  )
}

export function claimExport(db: Db, now: Date, until: Date): Promise<ExportRow | undefined> {
  return db
    .updateTable('exports')
    .set((e) => ({ state: 'running', next_try_at: until, attempt: e('attempt', '+', 1) }))
    .where('id', '=', (e) =>
      e
        .selectFrom('exports')
        .select('id')
        .where('state', 'in', ['queued', 'running'])
        .where('next_try_at', '<=', now)
        .orderBy('next_try_at')
        .orderBy('id')
        .limit(1)
        .forUpdate()
        .skipLocked(),
    )
    .returningAll()
    .executeTakeFirst()
}

type Attempt = Pick<ExportRow, 'id' | 'attempt'>

/** Renews the lease. @returns false if this attempt has lost it or the export is gone. */
export async function holdExport(db: Db, { id, attempt }: Attempt, until: Date): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('exports')
    .set({ next_try_at: until })
    .where('id', '=', id)
    .where('attempt', '=', attempt)
    .where('state', '=', 'running')
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

/**
 * Checks the lease in the same statement, so a late statement of a killed process adds nothing.
 * @returns false if this attempt has lost the lease or the export is gone.
 */
export async function insertPart(db: Db, { id, attempt }: Attempt, number: number, bytes: Buffer, until: Date): Promise<boolean> {
  const { numAffectedRows } = await sql`with held as (
      update exports set next_try_at = ${until} where id = ${id} and attempt = ${attempt} and state = 'running' returning id)
    insert into export_parts (export_id, attempt, number, bytes) select id, ${attempt}, ${number}, ${bytes} from held`.execute(db)
  return numAffectedRows === 1n
}

/** @returns false if this attempt has lost the lease. */
export async function endReady(
  db: Db,
  { id, attempt, organization_id, requested_by }: ExportRow,
  ready: { size_bytes: number; sha256: string; completed_at: Date; expires_at: Date },
): Promise<boolean> {
  return db.transaction().execute(async (tx) => {
    const { numUpdatedRows } = await tx
      .updateTable('exports')
      .set({ state: 'ready', ...ready })
      .where('id', '=', id)
      .where('attempt', '=', attempt)
      .where('state', '=', 'running')
      .executeTakeFirst()
    if (numUpdatedRows !== 1n) return false
    const { rows } = await sql<{ id: string }>`update exports set state = 'expired', expires_at = ${ready.completed_at}
      where id <> ${id} and state = 'ready' and coalesce(organization_id, requested_by) = ${organization_id ?? requested_by}
        and (organization_id is null) = ${organization_id === null} returning id`.execute(tx)
    await sql`delete from export_parts where export_id = any(${rows.map((row) => row.id)}::uuid[]) or (export_id = ${id} and attempt <> ${attempt})`.execute(
      tx,
    )
    return true
  })
}

export async function endFailed(db: Db, { id, attempt }: Attempt, failure: ExportFailure, now: Date): Promise<void> {
  await db
    .updateTable('exports')
    .set({ state: 'failed', failure, completed_at: now })
    .where('id', '=', id)
    .where('attempt', '=', attempt)
    .where('state', '=', 'running')
    .execute()
  await db.deleteFrom('export_parts').where('export_id', '=', id).execute()
}

export async function dropExports(db: Db, now: Date, created_before: Date): Promise<number> {
  const { rows } = await sql<{
    id: string
  }>`update exports set state = 'expired' where state = 'ready' and expires_at <= ${now} returning id`.execute(db)
  await sql`delete from export_parts where export_id in (select id from exports where state in ('expired', 'failed'))`.execute(db)
  await sql`delete from exports where state in ('expired', 'failed') and created_at < ${created_before}`.execute(db)
  return rows.length
}

export async function deleteExportsOf(tx: ChangeTx, person_id: string): Promise<void> {
  await tx.deleteFrom('exports').where('organization_id', 'is', null).where('requested_by', '=', person_id).execute()
}

export async function readPart(reads: Reader, { id, attempt }: Attempt, number: number): Promise<Buffer | undefined> {
  const text = 'select bytes from export_parts where export_id = $1 and attempt = $2 and number = $3'
  return (await reads.rows<{ bytes: Buffer }>('exports.part', text, [id, attempt, number]))[0]?.bytes
}
