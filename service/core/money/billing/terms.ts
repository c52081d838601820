import type { InvoiceLine } from '../../../../contract/schemas/billing.ts'
import { hasOverage, linesOf, type Prices } from '../usage/spend.ts'
import type { Granted } from '../usage/allowances.ts'
import type { Period } from '../usage/period.ts'
import type { Units } from '../../../../contract/schemas/usage.ts'

export interface Terms extends Prices {
  plan: string
}

export interface TermsBefore extends Terms {
  changed_at: Date
}

export interface Span {
  terms: Terms
  starts_at: Date
  ends_at: Date
}

/** `until`: time of the organization's deletion; null: not deleted. */
export interface Charged {
  from: Date
  until: Date | null
}

/** @param changes oldest first. */
export function spansOf(
  current: Terms,
  changes: readonly TermsBefore[],
  period: Period,
  { from, until }: Charged,
): { spans: Span[]; at_end: Terms } {
  const spans: Span[] = []
  const ends_at = until !== null && until < period.ends_at ? until : period.ends_at
  let starts_at = from > period.starts_at ? from : period.starts_at
  for (const { changed_at, ...terms } of changes) {
    if (changed_at <= starts_at) continue
    const span_ends_at = changed_at < ends_at ? changed_at : ends_at
    if (span_ends_at > starts_at) spans.push({ terms, starts_at, ends_at: span_ends_at })
    starts_at = span_ends_at
    if (changed_at >= ends_at) return { spans, at_end: terms }
  }
  if (starts_at < ends_at) spans.push({ terms: current, starts_at, ends_at })
  return { spans, at_end: current }
}

/** The prices of all parts of a period add up exactly to the whole price. */
export function proratedPrice(price_minor: number, { starts_at, ends_at }: Period, period: Period): number {
  const whole = BigInt(period.ends_at.getTime() - period.starts_at.getTime())
  const until = (at: Date) => (BigInt(price_minor) * BigInt(at.getTime() - period.starts_at.getTime())) / whole
  return Number(until(ends_at) - until(starts_at))
}

export interface Overage {
  was_on: boolean
  spend_cap_minor: number | null
}

/** Lines by currency: amounts of different currencies are never added. */
export function invoiceLines(
  { spans, at_end }: { spans: readonly Span[]; at_end: Terms },
  { used, granted, period, overage }: { used: Units; granted: Granted; period: Period; overage: Overage },
): Map<string, InvoiceLine[]> {
  const by_currency = new Map<string, InvoiceLine[]>()
  const add = (currency: string, line: InvoiceLine) => by_currency.set(currency, [...(by_currency.get(currency) ?? []), line])
  for (const span of mergedSpans(spans)) {
    const { currency, price_minor, plan } = span.terms
    if (currency === null || price_minor === null) continue
    const amount_minor = proratedPrice(price_minor, span, period)
    const times = { starts_at: span.starts_at.toISOString(), ends_at: span.ends_at.toISOString() }
    if (amount_minor > 0)
      add(currency, { kind: 'plan', plan, ...times, allowance: null, units: null, unit_minor: price_minor, amount_minor })
  }
  if (spans.length > 0 && hasOverage(at_end) && overage.was_on)
    for (const line of overageLines(at_end, { used, granted, period, overage })) add(at_end.currency, line)
  return by_currency
}

function overageLines(
  at_end: Terms & { price_minor: number },
  { used, granted, period, overage }: { used: Units; granted: Granted; period: Period; overage: Overage },
): InvoiceLine[] {
  const times = { starts_at: period.starts_at.toISOString(), ends_at: period.ends_at.toISOString() }
  const { plan } = at_end
  const lines = linesOf(at_end, used, granted)
    .filter(({ amount_minor }) => amount_minor > 0)
    .map(({ allowance, billed_units, rate_minor, amount_minor }): InvoiceLine => {
      return { kind: 'overage', plan, ...times, allowance, units: billed_units, unit_minor: rate_minor, amount_minor }
    })
  const cap = Math.min(overage.spend_cap_minor ?? 0, at_end.price_minor)
  const above = lines.reduce((sum, { amount_minor }) => sum + amount_minor, 0) - cap
  return above <= 0
    ? lines
    : [...lines, { kind: 'cap', plan, ...times, allowance: null, units: null, unit_minor: null, amount_minor: -above }]
}

/** Merges neighbouring spans between which only an allowance changed. */
function mergedSpans(spans: readonly Span[]): Span[] {
  const all: Span[] = []
  for (const span of spans) {
    const last = all.at(-1)
    const same =
      last?.terms.plan === span.terms.plan &&
      last.terms.price_minor === span.terms.price_minor &&
      last.terms.currency === span.terms.currency
    if (last !== undefined && same) all[all.length - 1] = { ...last, ends_at: span.ends_at }
    else all.push(span)
  }
  return all
}
