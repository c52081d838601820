import { LIMITS } from '../../../contract/limits.ts'
import type { IDLE_BASES } from '../../../contract/schemas/workspaces.ts'
import { learnedSeconds, type IdleGaps } from './idle-gaps.ts'

export interface IdleFacts {
  lifetime: 'persistent' | 'session'
  idle_policy: string | null
  template_defaults: { idle_policy?: string; session_idle_seconds?: number; background_seconds?: number }
  active_at: Date
  tool_call_at: Date | null
  busy_until: Date | null
  keepalive_until: Date | null
  suspend_requested_at: Date | null
  suspend_after_seconds: number | null
  suspend_not_before: Date | null
  idle_gaps: IdleGaps | null
  idle_failures: number
  idle_retry_at: Date | null
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

/** The idle rule of a workspace (App, "Lifecycle rules"). */
export function idleRule(facts: Pick<IdleFacts, 'lifetime' | 'idle_policy' | 'template_defaults' | 'idle_gaps'>): IdleRule {
  if (facts.lifetime === 'session') {
    const timeout_seconds = facts.template_defaults.session_idle_seconds ?? LIMITS.idle.session_seconds
    return { policy: `fixed:${timeout_seconds}`, timeout_seconds, basis: 'session' }
  }
  const policy = facts.idle_policy ?? facts.template_defaults.idle_policy ?? 'adaptive'
  if (policy === 'never') return { policy, timeout_seconds: null, basis: 'never' }
  const fixed_seconds = fixedSeconds(policy)
  if (fixed_seconds !== null) return { policy, timeout_seconds: fixed_seconds, basis: 'fixed' }
  const learned_seconds = learnedSeconds(facts.idle_gaps)
  if (learned_seconds !== null) return { policy, timeout_seconds: learned_seconds, basis: 'learned' }
  return { policy, timeout_seconds: LIMITS.idle.adaptive_seconds_default, basis: 'default' }
}

/** @returns null for another policy, or outside the limits. */
export function fixedSeconds(policy: string): number | null {
  const seconds = Number(/^fixed:(\d+)$/.exec(policy)?.[1] ?? Number.NaN)
  return seconds >= LIMITS.idle.fixed_seconds_min && seconds <= LIMITS.idle.fixed_seconds_max ? seconds : null
}

export function pendingSuspend(facts: IdleFacts): PendingSuspend | null {
  const { suspend_requested_at, suspend_after_seconds, suspend_not_before, tool_call_at } = facts
  if (suspend_requested_at === null || suspend_after_seconds === null || suspend_not_before === null) return null
  if (cancelsSuspend(tool_call_at, suspend_requested_at)) return null
  return { requested_at: suspend_requested_at, after_seconds: suspend_after_seconds, not_before: suspend_not_before }
}

export function cancelsSuspend(tool_call_at: Date | null, requested_at: Date): boolean {
  return tool_call_at !== null && tool_call_at > requested_at
}

export interface IdleEnd {
  at: Date
  by: 'policy' | 'request'
  /** null: the policy decides. */
  asked: PendingSuspend | null
}

/** @returns when the idle time begins. It is in the future while a command or a keepalive keeps the workspace awake. */
export function idleFrom({ active_at, busy_until, keepalive_until }: IdleFacts): Date {
  return new Date(Math.max(active_at.getTime(), busy_until?.getTime() ?? 0, keepalive_until?.getTime() ?? 0))
}

/**
 * A command postpones idle suspend for at most an hour from now, and for the longest command timeout after the last activity.
 * The guest is asked again within the hour.
 */
export function commandBusyUntil(busy_until: Date, { active_at }: Pick<IdleFacts, 'active_at'>, now: Date): Date {
  const hour_ms = now.getTime() + LIMITS.idle.command_busy_seconds_max * 1000
  return new Date(Math.min(busy_until.getTime(), hour_ms, active_at.getTime() + LIMITS.exec.timeout_ms_max))
}

/** @returns null: never suspended as idle. A request can only shorten the policy's wait (App, "Suspend when idle"). */
export function nextIdleEnd(facts: IdleFacts): IdleEnd | null {
  const idle_from_ms = idleFrom(facts).getTime()
  const by_policy = policyEnd(facts, idle_from_ms)
  const asked = pendingSuspend(facts)
  if (asked === null) return by_policy
  const at = new Date(Math.max(asked.not_before.getTime(), idle_from_ms + asked.after_seconds * 1000))
  return by_policy !== null && by_policy.at < at ? by_policy : { at, by: 'request', asked }
}

/** After a failed suspend the guest is not paused again before `idle_retry_at`. A request is not delayed. */
function policyEnd(facts: IdleFacts, idle_from_ms: number): IdleEnd | null {
  const { timeout_seconds } = idleRule(facts)
  if (timeout_seconds === null) return null
  const at_ms = Math.max(idle_from_ms + timeout_seconds * 1000, facts.idle_retry_at?.getTime() ?? 0)
  return { at: new Date(at_ms), by: 'policy', asked: null }
}

export function idleRetryAt(failures: number, now: Date): Date {
  const seconds = Math.min(LIMITS.idle.retry_seconds_min * 2 ** (failures - 1), LIMITS.idle.retry_seconds_max)
  return new Date(now.getTime() + seconds * 1000)
}
