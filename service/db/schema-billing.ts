import type { Generated } from 'kysely'
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

export interface PaymentAccountsTable {
  organization_id: string
  customer_id: string
  subscription_id: string | null
  plan_id: string | null
  plan_before_id: string | null
  look_at: Date
  created_at: Date
}

export interface CheckoutsTable {
  id: string
  organization_id: string
  plan_id: string
  state: 'pending' | 'completed' | 'expired' | 'superseded'
  session_id: string | null
  look_at: Date
  created_at: Date
  expires_at: Date
}

export interface PaymentEventsTable {
  id: string
  kind: 'checkout' | 'subscription' | 'invoice'
  object_id: string
  received_at: Date
  applied_at: Date | null
  next_try_at: Date
  tries: Generated<number>
  last_error: string | null
}

export interface PaymentInvoicesTable {
  invoice_id: string
  remote_id: string | null
  pushed_at: Date | null
  settled_at: Date | null
  next_try_at: Date
  tries: Generated<number>
  last_error: string | null
}
