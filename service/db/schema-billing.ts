import type { InvoiceLine, InvoiceState } from '../../contract/schemas/billing.ts'
import type { Int8, Json } from './schema.ts'

export interface SubscriptionChangesTable {
  organization_id: string
  changed_at: Date
  plan: string
  currency: string | null
  price_minor: number | null
  cpu_hours: number | null
  ram_gib_hours: number | null
  cpu_hour_minor: number | null
  ram_gib_hour_minor: number | null
}

export interface OveragePeriodsTable {
  organization_id: string
  period_starts_at: Date
  spend_cap_minor: number | null
}

export interface InvoicesTable {
  id: string
  organization_id: string
  number: string
  state: InvoiceState
  period_starts_at: Date
  period_ends_at: Date
  currency: string
  lines: Json<InvoiceLine[]>
  total_minor: Int8
  issued_at: Date
  due_at: Date
  paid_at: Date | null
  voided_at: Date | null
}
