import { LIMITS } from '../../../../contract/limits.ts'

const DAY_MS = 24 * 3600_000

export interface PaymentStanding {
  payment_refuses_starts: 'payment_past_due' | 'unpaid' | null
  payment_grace_until: Date | null
}

export function dueAt(issued_at: Date): Date {
  return new Date(issued_at.getTime() + LIMITS.billing.due_days * DAY_MS)
}

/** @param due_at the earliest due time; null: no invoice is open. */
export function paymentStanding(due_at: Date | null, now: Date): PaymentStanding {
  if (due_at === null || due_at > now) return { payment_refuses_starts: null, payment_grace_until: null }
  const payment_grace_until = new Date(due_at.getTime() + LIMITS.billing.grace_days * DAY_MS)
  if (payment_grace_until > now) return { payment_refuses_starts: 'payment_past_due', payment_grace_until }
  return { payment_refuses_starts: 'unpaid', payment_grace_until: null }
}
