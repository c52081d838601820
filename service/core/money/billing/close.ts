import { LIMITS } from '../../../../contract/limits.ts'
import type { InvoiceLine } from '../../../../contract/schemas/billing.ts'
import type { ChangeOrigin } from '../../changes/audit.ts'
import { mutate, type ChangeTx } from '../../changes/mutate.ts'
import { drawGrants } from '../usage/draw.ts'
import { grantedBy } from '../usage/grants.ts'
import { readGrants } from '../usage/grant-store.ts'
import { periodOf, rangeOf, type Period } from '../usage/period.ts'
import { readUsageTotals } from '../usage/store.ts'
import type { Db } from '../../../db/database.ts'
import { readerOf } from '../../../db/reader.ts'
import { dueAt } from './payment.ts'
import { findUnbilled, insertInvoices, listTermsBefore, lockBilled, markBilled, readOverage, type BillingState } from './store.ts'
import { invoiceLines, spansOf } from './terms.ts'

const BATCH = 100
const HOUR_MS = 3600_000

/** Periods before this time are final: the usage of their last hour is in the ledger. */
export function finalThrough(now: Date): Date {
  return periodOf(new Date(now.getTime() - (LIMITS.usage.final_after_hours + 1) * HOUR_MS)).starts_at
}

export interface Closing {
  closed: number
  invoices: number
  failed: { organization_id: string; error: unknown }[]
}

/**
 * Each organization and period has its own transaction, which locks nothing that a workspace needs. Several processes may run this at the
 * same time.
 */
export async function closePeriods(db: Db, by: ChangeOrigin): Promise<Closing> {
  const through = finalThrough(by.now)
  const done: Closing = { closed: 0, invoices: 0, failed: [] }
  for (let after: string | null = null; ;) {
    const found: string[] = await findUnbilled(db, through, after, BATCH)
    for (const organization_id of found) {
      await closeAll(db, by, organization_id, through, done).catch((error: unknown) => done.failed.push({ organization_id, error }))
    }
    after = found.at(-1) ?? null
    if (found.length < BATCH) return done
  }
}

async function closeAll(db: Db, by: ChangeOrigin, organization_id: string, through: Date, done: Closing): Promise<void> {
  for (;;) {
    const made = await closeNext(db, by, organization_id, through)
    if (made === null) return
    done.closed += 1
    done.invoices += made
  }
}

/** @returns null if there is no period to close. */
async function closeNext(db: Db, by: ChangeOrigin, organization_id: string, through: Date): Promise<number | null> {
  const before = await db.transaction().execute((tx) => lockBilled(tx, organization_id))
  const period = before === undefined ? null : nextPeriod(before, through)
  if (before === undefined || period === null) return null
  await drawRest(db, organization_id, before, period)
  const closed = await mutate(
    db,
    by,
    'invoices.close',
    (tx) => close(tx, by, organization_id, period),
    (made) => {
      if (made === null || made.length === 0) return null
      const details = { invoices: made.map(({ number, total_minor, currency }) => `${number} ${total_minor} ${currency}`) }
      return { kind: 'organization', id: organization_id, organization_id, project_id: null, details }
    },
  )
  return closed?.length ?? null
}

/** Billing begins with the latest final period. Earlier ones are never billed. */
function nextPeriod({ billed_through }: BillingState, through: Date): Period | null {
  const period = periodOf(billed_through ?? new Date(through.getTime() - 1))
  return period.ends_at <= through ? period : null
}

/** Usage after the last meter reading of the period needs credits too. */
async function drawRest(db: Db, organization_id: string, { terms, charged }: BillingState, period: Period): Promise<void> {
  const changes = await db.transaction().execute((tx) => listTermsBefore(tx, organization_id, period.starts_at))
  const { at_end } = spansOf(terms, changes, period, charged)
  const used = await readUsageTotals(readerOf(db), { organization_id, project_id: null, subject: null }, rangeOf(period))
  await drawGrants(db, organization_id, { included: at_end, used, period, at: rangeOf(period).to })
}

/** @returns null if another process has closed the period. */
async function close(tx: ChangeTx, { ids, now }: ChangeOrigin, organization_id: string, period: Period) {
  const row = await lockBilled(tx, organization_id)
  if (row === undefined || (row.billed_through !== null && row.billed_through >= period.ends_at)) return null
  const reads = readerOf(tx)
  const spans = spansOf(row.terms, await listTermsBefore(tx, organization_id, period.starts_at), period, row.charged)
  const used = await readUsageTotals(reads, { organization_id, project_id: null, subject: null }, rangeOf(period))
  const granted = grantedBy(await readGrants(reads, organization_id, period.starts_at), rangeOf(period).to)
  const lines = invoiceLines(spans, { used, granted, period, overage: await readOverage(tx, organization_id, period) })
  const invoices = [...lines].map(([currency, of_currency]) => ({
    id: ids.next(),
    organization_id,
    number: `${row.slug}-${period.starts_at.toISOString().slice(0, 7)}-${currency}`,
    state: 'open' as const,
    period_starts_at: period.starts_at,
    period_ends_at: period.ends_at,
    currency,
    lines: JSON.stringify(of_currency),
    total_minor: totalOf(of_currency),
    issued_at: now,
    due_at: dueAt(now),
    paid_at: null,
    voided_at: null,
  }))
  const owed = invoices.filter(({ total_minor }) => total_minor > 0)
  await insertInvoices(tx, owed)
  await markBilled(tx, organization_id, period.ends_at)
  return owed
}

function totalOf(lines: readonly InvoiceLine[]): number {
  return lines.reduce((sum, { amount_minor }) => sum + amount_minor, 0)
}
