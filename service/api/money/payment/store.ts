import { sql, type Insertable, type Selectable } from 'kysely'
import type { InvoiceRow } from '../../../core/money/billing/store.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Db } from '../../../db/database.ts'
import { deleteOld } from '../../../db/delete-old.ts'
import type { Reader, Tx } from '../../../db/reader.ts'
import type { Database } from '../../../db/schema.ts'
import type { PaymentEvent } from './service.ts'

export type Account = Selectable<Database['payment_accounts']>
export type Checkout = Selectable<Database['checkouts']>
type EventRow = Selectable<Database['payment_events']>

export async function readAccount(reads: Reader, organization_id: string): Promise<Account | undefined> {
  return (await reads.rows<Account>('payment.account', 'select * from payment_accounts where organization_id = $1', [organization_id]))[0]
}

export async function keepAccount(db: Db, account: Insertable<Database['payment_accounts']>): Promise<Account> {
  await db
    .insertInto('payment_accounts')
    .values(account)
    .onConflict((conflict) => conflict.column('organization_id').doNothing())
    .execute()
  return db.selectFrom('payment_accounts').selectAll().where('organization_id', '=', account.organization_id).executeTakeFirstOrThrow()
}

export function lockAccount(tx: Tx, where: { organization_id: string } | { subscription_id: string }): Promise<Account | undefined> {
  const rows = tx.selectFrom('payment_accounts').selectAll().forUpdate()
  return (
    'organization_id' in where
      ? rows.where('organization_id', '=', where.organization_id)
      : rows.where('subscription_id', '=', where.subscription_id)
  ).executeTakeFirst()
}

export async function writeSubscription(
  tx: ChangeTx,
  organization_id: string,
  change: Pick<Account, 'subscription_id' | 'plan_id' | 'plan_before_id' | 'look_at'>,
): Promise<void> {
  await tx.updateTable('payment_accounts').set(change).where('organization_id', '=', organization_id).execute()
}

export async function takeSubscriptions(db: Db, now: Date, look_at: Date, limit: number): Promise<string[]> {
  const { rows } = await sql<{ subscription_id: string }>`
    update payment_accounts set look_at = ${look_at} where organization_id in (
      select organization_id from payment_accounts where subscription_id is not null and look_at <= ${now}
      order by look_at limit ${limit} for update skip locked)
    returning subscription_id`.execute(db)
  return rows.map(({ subscription_id }) => subscription_id)
}

export function findPlanOf(db: Db, subscription_id: string): Promise<{ slug: string; name: string } | undefined> {
  return db
    .selectFrom('payment_accounts as a')
    .innerJoin('organizations as g', 'g.id', 'a.organization_id')
    .innerJoin('plans as p', 'p.id', 'g.plan_id')
    .select(['p.slug', 'p.name'])
    .where('a.subscription_id', '=', subscription_id)
    .executeTakeFirst()
}

export async function insertCheckout(tx: ChangeTx, checkout: Insertable<Database['checkouts']>): Promise<void> {
  await tx.insertInto('checkouts').values(checkout).execute()
}

/** @returns the pages of superseded checkouts, which must be closed. */
export async function supersede(tx: ChangeTx, organization_id: string): Promise<string[]> {
  const rows = await tx
    .updateTable('checkouts')
    .set({ state: 'superseded' })
    .where('organization_id', '=', organization_id)
    .where('state', '=', 'pending')
    .returning('session_id')
    .execute()
  return rows.flatMap(({ session_id }) => session_id ?? [])
}

/** @returns false if the checkout is no longer pending. */
export async function writePage(db: Db, id: string, session_id: string): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('checkouts')
    .set({ session_id })
    .where('id', '=', id)
    .where('state', '=', 'pending')
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

export async function endCheckout(db: Db, id: string, state: 'expired' | 'superseded'): Promise<void> {
  await db.updateTable('checkouts').set({ state }).where('id', '=', id).where('state', '=', 'pending').execute()
}

export async function completeCheckout(tx: ChangeTx, id: string, session_id: string): Promise<void> {
  await tx.updateTable('checkouts').set({ state: 'completed', session_id }).where('id', '=', id).execute()
}

export function findCheckout(tx: Tx, id: string): Promise<Checkout | undefined> {
  return tx.selectFrom('checkouts').selectAll().where('id', '=', id).executeTakeFirst()
}

export async function hasPendingCheckout(tx: Tx, organization_id: string, now: Date): Promise<boolean> {
  const row = await tx
    .selectFrom('checkouts')
    .select('id')
    .where('organization_id', '=', organization_id)
    .where('state', '=', 'pending')
    .where('expires_at', '>', now)
    .executeTakeFirst()
  return row !== undefined
}

export async function takeCheckouts(db: Db, now: Date, look_at: Date, limit: number): Promise<Pick<Checkout, 'id' | 'session_id'>[]> {
  const { rows } = await sql<Pick<Checkout, 'id' | 'session_id'>>`
    update checkouts set look_at = ${look_at} where id in (
      select id from checkouts where state = 'pending' and look_at <= ${now} order by look_at limit ${limit} for update skip locked)
    returning id, session_id`.execute(db)
  return rows
}

/** @returns false if the event was received before. */
export async function keepEvent(db: Db, { id, kind, object_id }: PaymentEvent, now: Date): Promise<boolean> {
  const { numInsertedOrUpdatedRows = 0n } = await db
    .insertInto('payment_events')
    .values({ id, kind, object_id, received_at: now, next_try_at: now, applied_at: null, last_error: null })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows > 0n
}

export async function takeEvent(db: Db, now: Date, until: Date): Promise<EventRow | undefined> {
  const { rows } = await sql<EventRow>`
    update payment_events set next_try_at = ${until}, tries = tries + 1 where id = (
      select id from payment_events where applied_at is null and next_try_at <= ${now} order by next_try_at, id limit 1 for update skip locked)
    returning *`.execute(db)
  return rows[0]
}

export async function endEvent(
  db: Db,
  { id, tries }: Pick<EventRow, 'id' | 'tries'>,
  change: { applied_at: Date; last_error: null } | { next_try_at: Date; last_error: string },
): Promise<void> {
  await db.updateTable('payment_events').set(change).where('id', '=', id).where('tries', '=', tries).execute()
}

export interface RemoteInvoice {
  remote_id: string | null
  pushed_at: Date | null
  tries: number
  next_try_at: Date
  customer_id: string
  invoice: InvoiceRow
}

/** Includes open invoices from before the organization became a customer. */
export async function addInvoices(db: Db, now: Date): Promise<void> {
  await sql`
    insert into payment_invoices (invoice_id, next_try_at)
    select i.id, ${now} from invoices i join payment_accounts a using (organization_id)
    where i.state = 'open' and not exists (select from payment_invoices p where p.invoice_id = i.id)
    on conflict do nothing`.execute(db)
}

export async function takeInvoice(db: Db, now: Date, until: Date): Promise<RemoteInvoice | undefined> {
  const { rows } = await sql<{ invoice_id: string }>`
    update payment_invoices set next_try_at = ${until}, tries = tries + 1 where invoice_id = (
      select invoice_id from payment_invoices where settled_at is null and next_try_at <= ${now}
      order by next_try_at, invoice_id limit 1 for update skip locked)
    returning invoice_id`.execute(db)
  const [taken] = rows
  return taken === undefined ? undefined : findInvoice(db, { invoice_id: taken.invoice_id })
}

export async function findInvoice(db: Db, where: { invoice_id: string } | { remote_id: string }): Promise<RemoteInvoice | undefined> {
  const rows = db
    .selectFrom('payment_invoices as p')
    .innerJoin('invoices as i', 'i.id', 'p.invoice_id')
    .innerJoin('payment_accounts as a', 'a.organization_id', 'i.organization_id')
    .selectAll('i')
    .select(['p.remote_id', 'p.pushed_at', 'p.tries', 'p.next_try_at', 'a.customer_id'])
  const row = await (
    'invoice_id' in where ? rows.where('p.invoice_id', '=', where.invoice_id) : rows.where('p.remote_id', '=', where.remote_id)
  ).executeTakeFirst()
  if (row === undefined) return undefined
  const { remote_id, pushed_at, tries, next_try_at, customer_id, ...invoice } = row
  return { remote_id, pushed_at, tries, next_try_at, customer_id, invoice }
}

/** @returns false if the claim expired or the invoice ended. */
export async function writeInvoice(
  db: Db,
  { invoice, tries, next_try_at }: RemoteInvoice,
  change: { pushed_at?: Date; settled_at?: Date; next_try_at?: Date; tries?: number; last_error?: string | null },
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('payment_invoices')
    .set(change)
    .where('invoice_id', '=', invoice.id)
    .where('tries', '=', tries)
    .where('next_try_at', '=', next_try_at)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Resets settled_at: if the invoice ended here meanwhile, the next pass must end the remote copy. */
export async function keepRemote(db: Db, invoice_id: string, remote_id: string): Promise<void> {
  await db.updateTable('payment_invoices').set({ remote_id, settled_at: null }).where('invoice_id', '=', invoice_id).execute()
}

export async function settleInvoice(db: Db, invoice_id: string, now: Date): Promise<void> {
  await db.updateTable('payment_invoices').set({ settled_at: now, last_error: null }).where('invoice_id', '=', invoice_id).execute()
}

export async function lookAtInvoice(db: Db, invoice_id: string, now: Date): Promise<void> {
  await db
    .updateTable('payment_invoices')
    .set((e) => ({ settled_at: null, next_try_at: now, tries: e('tries', '+', 1) }))
    .where('invoice_id', '=', invoice_id)
    .execute()
}

export async function isOpen(db: Db, invoice_id: string): Promise<boolean> {
  const row = await db.selectFrom('invoices').select('id').where('id', '=', invoice_id).where('state', '=', 'open').executeTakeFirst()
  return row !== undefined
}

/** Applied events are kept until `before`, so that repeats are detected. */
export async function forgetPayments(db: Db, before: Date): Promise<void> {
  await deleteOld(db, 'payment_events', sql`applied_at < ${before}`)
  await deleteOld(db, 'checkouts', sql`created_at < ${before} and state in ('expired', 'superseded')`)
}
