import type { invoicesGet, invoicesList } from '../../../../contract/routes/app/billing.ts'
import type { Invoice } from '../../../../contract/schemas/billing.ts'
import type { InvoiceRow } from '../../../core/money/billing/store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { listInvoices, readInvoice } from './store.ts'
import type { PageDeps, ReadDeps } from '../../calls/deps.ts'

export async function listInvoicesOfOrganization(call: Call<typeof invoicesList>, deps: PageDeps): Promise<Reply> {
  const { organization_id } = call.params
  if (!maySeeOrganization(call.who, organization_id)) throw notFound('organization')
  const rows = await listInvoices(deps.reads, organization_id, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, invoiceView) }
}

export async function getInvoice({ who, params }: Call<typeof invoicesGet>, { reads }: ReadDeps): Promise<Reply> {
  const { organization_id, invoice_id } = params
  if (!maySeeOrganization(who, organization_id)) throw notFound('organization')
  const row = await readInvoice(reads, organization_id, invoice_id)
  if (row === undefined) throw notFound('invoice')
  return { status: 200, body: invoiceView(row) }
}

function invoiceView(row: InvoiceRow): Invoice {
  const { id, organization_id, number, state, currency, lines, total_minor } = row
  return {
    id,
    organization_id,
    number,
    state,
    period: { starts_at: row.period_starts_at.toISOString(), ends_at: row.period_ends_at.toISOString() },
    currency,
    lines,
    total_minor,
    issued_at: row.issued_at.toISOString(),
    due_at: row.due_at.toISOString(),
    paid_at: row.paid_at?.toISOString() ?? null,
    voided_at: row.voided_at?.toISOString() ?? null,
  }
}
