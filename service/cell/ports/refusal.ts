import type { Refusal as Refused } from '../../../contract/internal/ports.ts'
import { PORT_REFUSALS, type PortRefusal } from '../../../contract/port-refusals.ts'
import { databaseIsUnavailable } from '../../http/database-failure.ts'
import { Failure } from '../../lib/fail.ts'

export class Refusal extends Error {
  readonly reason: PortRefusal
  readonly retry_after_seconds: number | undefined

  constructor(reason: PortRefusal, retry_after_seconds?: number) {
    super(PORT_REFUSALS[reason].means)
    this.reason = reason
    this.retry_after_seconds = retry_after_seconds
  }
}

export function told({ reason, message, retry_after_seconds }: Refusal): Refused {
  const { status } = PORT_REFUSALS[reason]
  return { status, reason, message, ...(retry_after_seconds === undefined ? {} : { retry_after_seconds }) }
}

const RETRY_SECONDS = 1
/** For limits that change with a payment or a new billing period. */
const PLAN_RETRY_SECONDS = 60

/** Visitors must not learn about the API and the gateway. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  if (databaseIsUnavailable(error)) return new Refusal('unavailable', RETRY_SECONDS)
  if (!(error instanceof Failure)) throw error
  const retry = error.options.retry_after_seconds ?? RETRY_SECONDS
  switch (error.code) {
    case 'allowance_exhausted':
    case 'entitlement_required':
    case 'quota_exceeded':
      return new Refusal(error.code, PLAN_RETRY_SECONDS)
    case 'service_unavailable':
      if (error.reason === 'host_capacity' || error.reason === 'wake_failed') return new Refusal(error.reason, retry)
      return new Refusal('unavailable', retry)
    default:
      return new Refusal('unavailable', retry)
  }
}
