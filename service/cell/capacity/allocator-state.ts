import type { Db } from '../../db/database.ts'
import type { HostCapacity } from '../../../contract/internal/host-inventory.ts'
import type { CapacityRequest, EvictionSource } from './allocator.ts'
import type { CapacityAmount } from './capacity-store.ts'
import type { DrainingMachines } from './draining.ts'
import { fairOrder, type FairShares } from './fair-order.ts'
import type { Refusals } from './host-refusals.ts'

/** The allocator's memory. After a restart it is rebuilt from rows and from the host's reports. */
export interface AllocatorState {
  readonly db: Db
  readonly cell_id: string
  readonly draining: DrainingMachines
  readonly refusals: Refusals
  /** null: the host has not reported yet. */
  host: HostCapacity | null
  evictions: EvictionSource
  /** Upper bound of the capacity in use: grants are added at once, and releases are only seen at the next read. null: unknown. */
  in_use: CapacityAmount | null
  is_stale: boolean
  /** True if `in_use` omits the machine of one request, which may exist. No other request may be granted from this total. */
  is_partial: boolean
  /** True if the last reconcile pass fixed everything that it found. */
  is_reconciled: boolean
  readonly queue: Map<string, CapacityRequest>
  /** The queue in fair-share order; null: requests or shares have changed since. */
  order: CapacityRequest[] | null
  shares: FairShares
  /** Ids of requests that wait in `acquire`. */
  readonly acquiring: Set<string>
  /** The number of running and queued decisions. Each begins after the one before, `last_decision`. */
  deciding: number
  last_decision: Promise<unknown>
  /** Each function ends one wait in `acquire`. */
  readonly waits: Set<() => void>
  readonly release_listeners: Set<() => void>
  readonly reconcile_listeners: Set<() => void>
}

export function inFairOrder(state: AllocatorState): CapacityRequest[] {
  return (state.order ??= fairOrder([...state.queue.values()], state.shares))
}

export function enqueue(state: AllocatorState, want: CapacityRequest): void {
  if (state.queue.get(want.id) !== want) state.order = null
  state.queue.set(want.id, want)
}

/** @returns whether it was queued. */
export function dequeue(state: AllocatorState, id: string): boolean {
  const was_there = state.queue.delete(id)
  if (was_there) state.order = null
  return was_there
}

/** Replaces the queued operations. Requests that wait in `acquire` stay queued. */
export function setQueue<W extends CapacityRequest>(state: AllocatorState, operations: readonly W[], places: number): W[] {
  const asked = new Map((places > 0 ? operations : []).map((want) => [want.id, want]))
  for (const id of state.queue.keys()) if (!state.acquiring.has(id) && !asked.has(id)) dequeue(state, id)
  for (const want of asked.values()) enqueue(state, want)
  return fairOrder(operations, state.shares)
}

export function endWaits(state: AllocatorState): void {
  for (const end of state.waits) end()
}

export function announceRelease(state: AllocatorState): void {
  endWaits(state)
  for (const heard of state.release_listeners) heard()
}

export function released(state: AllocatorState): void {
  state.is_stale = true
  announceRelease(state)
}

export function requestReconcile(state: AllocatorState): void {
  for (const heard of state.reconcile_listeners) heard()
}
