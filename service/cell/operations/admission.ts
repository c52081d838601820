import { LIMITS } from '../../../contract/limits.ts'
import type { OperationError, Resources } from '../../db/column-types.ts'
import type { MachineCapacity } from '../host/hostd.ts'
import type { ShortResource } from '../capacity/allocator.ts'
import { operationError } from './errors.ts'

export type Admission = { kind: 'ask'; deadline_at: Date } | { kind: 'refuse'; error: OperationError }

export interface StartQuestion {
  required: Resources
  host: MachineCapacity
  created_at: Date
  now: Date
}

const RESOURCES = ['cpu_millis', 'memory_mib', 'disk_gib'] as const

/** Machines share processors by weight, so processors only limit the size of one machine. */
export function admit({ required, host, created_at, now }: StartQuestion): Admission {
  const host_class = { cpu_millis: host.cpu_millis, memory_mib: host.memory_mib - host.headroom_mib, disk_gib: host.disk_gib }
  const exceeded = RESOURCES.filter((name) => required[name] > host_class[name])
  if (exceeded.length > 0) return { kind: 'refuse', error: exceedsHost(required, host_class, exceeded) }
  const deadline_at = waitsUntil(created_at)
  // The caller was told this deadline and does not expect a later start, so the operation fails now.
  if (now >= deadline_at) return { kind: 'refuse', error: noRoom(required, created_at, now) }
  return { kind: 'ask', deadline_at }
}

/** The deadline of a wait for capacity (App, "Capacity wait"). */
export function waitsUntil(created_at: Date): Date {
  return new Date(created_at.getTime() + LIMITS.wait.capacity_wait_seconds * 1000)
}

function exceedsHost(required: Resources, host_class: Resources, exceeded: readonly string[]): OperationError {
  return operationError('invalid_resources', 'The workspace needs more than any host has', {
    reason: 'exceeds_host_class',
    required,
    host_class,
    exceeded,
  })
}

export function noRoom(required: Resources | null, created_at: Date, now: Date): OperationError {
  return operationError('capacity_unavailable', 'No host had room for the workspace in time', {
    reason: 'no_ready_host',
    waited_seconds: Math.floor((now.getTime() - created_at.getTime()) / 1000),
    deadline_seconds: LIMITS.wait.capacity_wait_seconds,
    ...(required === null ? {} : { required }),
  })
}

const SHORT: Record<ShortResource, string> = { memory_mib: 'memory', disk_gib: 'disk' }

export function pending(required: Resources, deadline_at: Date, short: readonly ShortResource[]): OperationError {
  const message = `No host has room for the workspace yet: there is too little ${short.map((name) => SHORT[name]).join(' and ')}`
  return operationError('capacity_unavailable', message, {
    reason: 'no_ready_host',
    deadline_at: deadline_at.toISOString(),
    required,
    short,
  })
}
