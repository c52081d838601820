import { LIMITS } from '../../../contract/limits.ts'
import type { OperationError, Resources } from '../../db/schema.ts'
import { operationError } from './errors.ts'

export type Admission =
  { kind: 'admit' } | { kind: 'refuse'; error: OperationError } | { kind: 'wait'; deadline_at: Date; error: OperationError }

export interface StartQuestion {
  required: Resources
  /** The whole computer. */
  host: Resources
  used: Resources
  created_at: Date
  now: Date
}

const RESOURCES = ['cpu_millis', 'memory_mib', 'disk_gib'] as const

/** Whether a start may begin: now, never, not any more, or when there is room. */
export function admit({ required, host, used, created_at, now }: StartQuestion): Admission {
  const exceeded = RESOURCES.filter((name) => required[name] > host[name])
  if (exceeded.length > 0) return { kind: 'refuse', error: exceedsHost(required, host, exceeded) }
  const deadline_at = new Date(created_at.getTime() + LIMITS.capacity_wait_seconds * 1000)
  // Also where there is room by now: a caller that was told the deadline does not expect a start after it.
  if (now >= deadline_at) return { kind: 'refuse', error: noRoom(required, created_at, now) }
  if (RESOURCES.every((name) => used[name] + required[name] <= host[name])) return { kind: 'admit' }
  return { kind: 'wait', deadline_at, error: pending(required, deadline_at) }
}

export function plus(a: Resources, b: Resources): Resources {
  return { cpu_millis: a.cpu_millis + b.cpu_millis, memory_mib: a.memory_mib + b.memory_mib, disk_gib: a.disk_gib + b.disk_gib }
}

function exceedsHost(required: Resources, host_class: Resources, exceeded: readonly string[]): OperationError {
  return operationError('invalid_resources', 'The workspace needs more than any host has', {
    reason: 'exceeds_host_class',
    required,
    host_class,
    exceeded,
  })
}

function noRoom(required: Resources, created_at: Date, now: Date): OperationError {
  return operationError('capacity_unavailable', 'No host had room for the workspace in time', {
    reason: 'no_ready_host',
    waited_seconds: Math.floor((now.getTime() - created_at.getTime()) / 1000),
    deadline_seconds: LIMITS.capacity_wait_seconds,
    required,
  })
}

/** Shown while it waits (DECISIONS, "Shapes": it already carries the deadline). */
function pending(required: Resources, deadline_at: Date): OperationError {
  return operationError('capacity_unavailable', 'No host has room for the workspace yet', {
    reason: 'no_ready_host',
    deadline_at: deadline_at.toISOString(),
    required,
  })
}
