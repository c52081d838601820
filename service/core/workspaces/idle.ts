import { LIMITS } from '../../../contract/limits.ts'
import type { IDLE_BASES } from '../../../contract/schemas/workspaces.ts'

/** What idleness of one workspace depends on: columns of its row, and its template version's defaults. */
export interface IdleFacts {
  lifetime: 'persistent' | 'session'
  idle_policy: string | null
  template_defaults: { idle_policy?: string; session_idle_seconds?: number }
  active_at: Date
  tool_call_at: Date | null
  busy_until: Date | null
  keepalive_until: Date | null
  suspend_requested_at: Date | null
  suspend_after_seconds: number | null
  suspend_not_before: Date | null
}

export interface IdleRule {
  policy: string
  timeout_seconds: number | null
  basis: (typeof IDLE_BASES)[number]
}

export interface PendingSuspend {
  requested_at: Date
  after_seconds: number
  not_before: Date
}

/** The policy that applies: the workspace's own, else its template version's, else adaptive (App, "Lifecycle rules"). */
export function idleRule(facts: Pick<IdleFacts, 'lifetime' | 'idle_policy' | 'template_defaults'>): IdleRule {
  if (facts.lifetime === 'session') {
    const timeout_seconds = facts.template_defaults.session_idle_seconds ?? LIMITS.idle_session_seconds
    return { policy: `fixed:${timeout_seconds}`, timeout_seconds, basis: 'session' }
  }
  const policy = facts.idle_policy ?? facts.template_defaults.idle_policy ?? 'adaptive'
  if (policy === 'never') return { policy, timeout_seconds: null, basis: 'never' }
  const fixed_seconds = fixedSeconds(policy)
  if (fixed_seconds !== null) return { policy, timeout_seconds: fixed_seconds, basis: 'fixed' }
  return { policy, timeout_seconds: LIMITS.idle_adaptive_seconds_default, basis: 'default' }
}

/** Seconds of a `fixed:<seconds>` policy within its limits, else null. */
export function fixedSeconds(policy: string): number | null {
  const seconds = Number(/^fixed:(\d+)$/.exec(policy)?.[1] ?? Number.NaN)
  return seconds >= LIMITS.idle_fixed_seconds_min && seconds <= LIMITS.idle_fixed_seconds_max ? seconds : null
}

/** The suspend that was asked for, unless a tool call after the request has cancelled it. */
export function pendingSuspend(facts: IdleFacts): PendingSuspend | null {
  const { suspend_requested_at, suspend_after_seconds, suspend_not_before, tool_call_at } = facts
  if (suspend_requested_at === null || suspend_after_seconds === null || suspend_not_before === null) return null
  if (tool_call_at !== null && tool_call_at > suspend_requested_at) return null
  return { requested_at: suspend_requested_at, after_seconds: suspend_after_seconds, not_before: suspend_not_before }
}

/** When a running workspace may be suspended if nothing happens until then; null when idleness alone never does it. */
export function nextEligibleAt(facts: IdleFacts): Date | null {
  const idle_from_ms = Math.max(facts.active_at.getTime(), facts.busy_until?.getTime() ?? 0, facts.keepalive_until?.getTime() ?? 0)
  const { timeout_seconds } = idleRule(facts)
  const asked = pendingSuspend(facts)
  const moments_ms: number[] = []
  if (timeout_seconds !== null) moments_ms.push(idle_from_ms + timeout_seconds * 1000)
  if (asked) moments_ms.push(Math.max(asked.not_before.getTime(), idle_from_ms + asked.after_seconds * 1000))
  return moments_ms.length === 0 ? null : new Date(Math.min(...moments_ms))
}
