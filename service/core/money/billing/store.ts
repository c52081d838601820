import { sql, type Insertable, type Selectable } from 'kysely'
import type { Db } from '../../../db/database.ts'
import type { Tx } from '../../../db/reader.ts'
import type { Database } from '../../../db/schema.ts'
import type { ChangeTx } from '../../changes/mutate.ts'
import type { PaymentStanding } from './payment.ts'
import type { Charged, Overage, Terms, TermsBefore } from './terms.ts'
import type { Period } from '../usage/period.ts'

export type InvoiceRow = Selectable<Database['invoices']>

const TERMS = ['p.currency', 'p.price_minor', 'p.cpu_hours', 'p.ram_gib_hours', 'p.cpu_hour_minor', 'p.ram_gib_hour_minor'] as const

export async function recordTermsBefore(
  tx: ChangeTx,
  of: { organization_id: string } | { plan_id: string },
  changed_at: Date,
): Promise<void> {
  const whose = 'organization_id' in of ? sql`g.id = ${of.organization_id}` : sql`p.id = ${of.plan_id}`
  await sql`
    insert into subscription_changes
      (organization_id, changed_at, plan, currency, price_minor, cpu_hours, ram_gib_hours, cpu_hour_minor, ram_gib_hour_minor)
    select g.id, ${changed_at}, p.slug, p.currency, p.price_minor, p.cpu_hours, p.ram_gib_hours, p.cpu_hour_minor, p.ram_gib_hour_minor
    from organizations g join plans p on p.id = g.plan_id where ${whose}`.execute(tx)
}

/** A deleted organization owes nothing for later periods. */
export async function findUnbilled(db: Db, through: Date, after: string | null, limit: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select g.id from organizations g join plans p on p.id = g.plan_id
    where coalesce(g.billed_through, '-infinity') < ${through} and (${after}::uuid is null or g.id > ${after}::uuid) and g.created_at < ${through}
      and (g.deleting_at is null or g.deleting_at > coalesce(g.billed_through, '-infinity'))
      and (p.currency is not null or exists (select from subscription_changes c where c.organization_id = g.id and c.currency is not null))
    order by g.id limit ${limit}`.execute(db)
  return rows.map(({ id }) => id)
}

export interface BillingState {
  slug: string
  charged: Charged
  billed_through: Date | null
  terms: Terms
}

/** Locks the organization against other processes that close its periods. Its workspaces do not wait for this lock. */
export async function lockBilled(tx: Tx, id: string): Promise<BillingState | undefined> {
  const row = await tx
    .selectFrom('organizations as g')
    .innerJoin('plans as p', 'p.id', 'g.plan_id')
    .select(['g.slug', 'g.created_at', 'g.deleting_at', 'g.billed_through', 'p.slug as plan', ...TERMS])
    .where('g.id', '=', id)
    .forNoKeyUpdate('g')
    .executeTakeFirst()
  if (row === undefined) return undefined
  const { slug, created_at, deleting_at, billed_through, ...terms } = row
  return { slug, charged: { from: created_at, until: deleting_at }, billed_through, terms }
}

export function listTermsBefore(tx: Tx, organization_id: string, after: Date): Promise<TermsBefore[]> {
  return tx
    .selectFrom('subscription_changes')
    .select(['changed_at', 'plan', 'currency', 'price_minor', 'cpu_hours', 'ram_gib_hours', 'cpu_hour_minor', 'ram_gib_hour_minor'])
    .where('organization_id', '=', organization_id)
    .where('changed_at', '>', after)
    .orderBy('changed_at')
    .execute()
}

export async function readOverage(tx: Tx, organization_id: string, period: Period): Promise<Overage> {
  const in_period = await tx
    .selectFrom('overage_periods')
    .select('spend_cap_minor')
    .where('organization_id', '=', organization_id)
    .where('period_starts_at', '=', period.starts_at)
    .executeTakeFirst()
  if (in_period !== undefined) return { was_on: true, spend_cap_minor: in_period.spend_cap_minor }
  const policy = await tx.selectFrom('spend_policies').selectAll().where('organization_id', '=', organization_id).executeTakeFirst()
  const was_on = policy !== undefined && policy.overage_enabled && policy.changed_at < period.ends_at
  return { was_on, spend_cap_minor: policy?.spend_cap_minor ?? null }
}

export async function insertInvoices(tx: ChangeTx, invoices: Insertable<Database['invoices']>[]): Promise<void> {
  if (invoices.length > 0) await tx.insertInto('invoices').values(invoices).execute()
}

export async function markBilled(tx: ChangeTx, id: string, billed_through: Date): Promise<void> {
  await tx.updateTable('organizations').set({ billed_through }).where('id', '=', id).execute()
}

export function lockInvoice(tx: Tx, id: string): Promise<InvoiceRow | undefined> {
  return tx.selectFrom('invoices').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
}

export async function endInvoice(tx: ChangeTx, id: string, change: { state: 'paid'; paid_at: Date } | { state: 'void'; voided_at: Date }) {
  await tx.updateTable('invoices').set(change).where('id', '=', id).where('state', '=', 'open').execute()
  // The payment service is notified without delay. The changed `tries` tells a process that pushes the invoice now.
  const at = 'paid_at' in change ? change.paid_at : change.voided_at
  await tx
    .updateTable('payment_invoices')
    .set((e) => ({ next_try_at: at, tries: e('tries', '+', 1) }))
    .where('invoice_id', '=', id)
    .execute()
}

export function listInvoicesOf(db: Db, organization_id: string) {
  return db
    .selectFrom('invoices')
    .select(['id', 'number', 'state', 'currency', 'total_minor', 'issued_at', 'due_at', 'paid_at'])
    .where('organization_id', '=', organization_id)
    .orderBy('issued_at')
    .execute()
}

export function listSubscriptions(db: Db) {
  return db
    .selectFrom('organizations as g')
    .innerJoin('plans as p', 'p.id', 'g.plan_id')
    .select([
      'g.slug as organization',
      'p.slug as plan',
      'p.currency',
      'p.price_minor',
      sql<string | null>`coalesce(g.refuses_starts, g.payment_refuses_starts, p.refuses_starts)`.as('refuses_starts'),
      sql<Date | null>`coalesce(g.grace_until, g.payment_grace_until)`.as('grace_until'),
      'g.billed_through',
    ])
    .orderBy('g.slug')
    .execute()
}

/** Locks the organization, as every change of an invoice does. */
export async function firstDue(tx: Tx, organization_id: string): Promise<Date | null> {
  await tx.selectFrom('organizations').select('id').where('id', '=', organization_id).forNoKeyUpdate().execute()
  const { due_at } = await tx
    .selectFrom('invoices')
    .select((e) => e.fn.min('due_at').as('due_at'))
    .where('organization_id', '=', organization_id)
    .where('state', '=', 'open')
    .executeTakeFirstOrThrow()
  return due_at
}

export async function writePaymentStanding(tx: ChangeTx, id: string, standing: PaymentStanding): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('organizations')
    .set(standing)
    .where('id', '=', id)
    .where((e) =>
      e.or([
        e('payment_refuses_starts', 'is distinct from', standing.payment_refuses_starts),
        e('payment_grace_until', 'is distinct from', standing.payment_grace_until),
      ]),
    )
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

export interface StandingCheck extends PaymentStanding {
  id: string
  /** null: no invoice is open. */
  due_at: Date | null
}

export async function findStandingChecks(db: Db, due_before: Date, after: string | null, limit: number): Promise<StandingCheck[]> {
  const { rows } = await sql<StandingCheck>`
    select g.id, g.payment_refuses_starts, g.payment_grace_until,
      (select min(i.due_at) from invoices i where i.organization_id = g.id and i.state = 'open') as due_at
    from organizations g
    where (${after}::uuid is null or g.id > ${after}::uuid) and (g.payment_refuses_starts is not null
      or g.id in (select i.organization_id from invoices i where i.state = 'open' and i.due_at <= ${due_before}))
    order by g.id limit ${limit}`.execute(db)
  return rows
}
