import type { InvoiceRow } from '../../../core/money/billing/store.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Page } from '../../calls/pages.ts'

export function listInvoices(reads: Reader, organization_id: string, { below, limit }: Page): Promise<InvoiceRow[]> {
  const first = below === null
  return reads.rows(
    first ? 'billing.invoices' : 'billing.invoices:b',
    `select * from invoices where organization_id = $1 ${first ? '' : 'and uuid_send(id) < uuid_send($3::uuid)'}
     order by uuid_send(id) desc limit $2`,
    [organization_id, limit + 1, ...(first ? [] : [below])],
  )
}

export async function readInvoice(reads: Reader, organization_id: string, id: string): Promise<InvoiceRow | undefined> {
  const text = 'select * from invoices where organization_id = $1 and id = $2'
  return (await reads.rows<InvoiceRow>('billing.invoice', text, [organization_id, id]))[0]
}
