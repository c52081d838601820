import { LIMITS } from '../../../contract/limits.ts'
import type { Call, Principal } from '../../http/call.ts'
import { fail, type Failure } from '../../lib/fail.ts'

/**
 * Tenant limit: bounds the connections that one tenant's changes hold. Changes wait for row locks inside a connection, so without it a
 * burst of one tenant would block all others.
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
/** Divisor of all connections for one tenant: a burst leaves three quarters to the others. */
const SHARE = 4
const AT_ONCE_MIN = 2

export function tenantLimitOptions(connections_max: number): TenantLimitOptions {
  const at_once = Math.max(AT_ONCE_MIN, Math.floor(connections_max / SHARE))
  return { at_once, waiting: LIMITS.caller.waiting_changes_per_tenant_max, wait_ms: LIMITS.caller.change_wait_seconds_max * 1000 }
}

interface TenantQueue {
  running: number
  waiting: Set<() => void>
}

export function createTenantLimit(limits: TenantLimitOptions): TenantLimit {
  const lines = new Map<string, TenantQueue>()
  return {
    async run(call, work) {
      const tenant = tenantOf(call.who)
      const line = lines.get(tenant) ?? { running: 0, waiting: new Set() }
      lines.set(tenant, line)
      if (line.running < limits.at_once) line.running += 1
      else await waitForPermit(line, limits, call)
      try {
        return await work()
      } finally {
        const [next] = line.waiting
        if (next === undefined) line.running -= 1
        else handOverPermit(line, next)
        if (line.running === 0) lines.delete(tenant)
      }
    },
  }
}

/** Removes the waiter and resolves it in one step, so that no permit goes to a waiter that has left. */
function handOverPermit({ waiting }: TenantQueue, next: () => void): void {
  waiting.delete(next)
  next()
}

/** Waits until finished work hands over its permit. */
async function waitForPermit({ waiting }: TenantQueue, limits: TenantLimitOptions, { signal }: Pick<Call, 'signal'>): Promise<void> {
  if (waiting.size >= limits.waiting) throw tooMany()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const leave = () => {
    if (waiting.delete(resolve)) reject(signal.aborted ? new Error('the caller has gone') : tooMany())
  }
  const late = setTimeout(leave, limits.wait_ms)
  signal.addEventListener('abort', leave)
  waiting.add(resolve)
  try {
    if (signal.aborted) leave()
    await promise
  } finally {
    clearTimeout(late)
    signal.removeEventListener('abort', leave)
  }
}

function tooMany(): Failure {
  return fail('rate_limited', null, 'Too many of your changes wait for one another', { retry_after_seconds: RETRY_SECONDS })
}

/** Returns the tenant. An API key counts for its organization; a person counts once for all organizations. */
export function tenantOf(who: Principal): string {
  return who.type === 'api_key' ? who.organization_id : who.id
}
