import { LIMITS } from '../../../contract/limits.ts'
import type { Call, Principal } from '../../http/call.ts'
import { createFairSemaphore } from '../../lib/bounded.ts'
import { fail, type Failure } from '../../lib/fail.ts'

/**
 * Bounds the database connections that one tenant's changes hold. Changes wait for row locks while they hold a connection, so a burst of
 * one tenant could otherwise block all tenants.
 */
export interface TenantLimit {
  /** Runs the work under the tenant's limit, in order of arrival. */
  run<Result>(call: Pick<Call, 'who' | 'signal'>, work: () => Promise<Result>): Promise<Result>
}

export interface TenantLimitOptions {
  /** Running changes per tenant. */
  at_once: number
  /** Queued changes per tenant; more are refused. */
  waiting: number
  wait_ms: number
}

const RETRY_SECONDS = 1
/** One tenant may use a quarter of the connections. The rest remain for other tenants during its burst. */
const SHARE = 4
const AT_ONCE_MIN = 2

export function tenantLimitOptions(connections_max: number): TenantLimitOptions {
  const at_once = Math.max(AT_ONCE_MIN, Math.floor(connections_max / SHARE))
  return { at_once, waiting: LIMITS.caller.waiting_changes_per_tenant_max, wait_ms: LIMITS.caller.change_wait_seconds_max * 1000 }
}

export function createTenantLimit({ at_once, waiting, wait_ms }: TenantLimitOptions): TenantLimit {
  const changes = createFairSemaphore({ at_once_per_name: at_once, waiting_per_name: waiting, wait_ms }, tooMany)
  return { run: (call, work) => changes.run(tenantOf(call.who), work, call.signal) }
}

function tooMany(): Failure {
  return fail('rate_limited', null, 'Too many of your changes wait for one another', { retry_after_seconds: RETRY_SECONDS })
}

/** An API key is charged to its organization. A person is one tenant, whatever the organization. */
export function tenantOf(who: Principal): string {
  return who.type === 'api_key' ? who.organization_id : who.id
}
