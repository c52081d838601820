import type { HostCapacity } from '../../../contract/internal/host-inventory.ts'
import type { CapacityRequest, Decision, ShortResource } from './allocator.ts'
import { dequeue, enqueue, inFairOrder, requestReconcile, type AllocatorState } from './allocator-state.ts'
import { reachableMib, readInUse, sizeOf } from './capacity-in-use.ts'
import type { CapacityAmount } from './capacity-store.ts'
import { afterGrant } from './fair-order.ts'

/** Runs the work after all earlier decisions: two that overlap would grant the same capacity. */
export function inTurn<T>(state: AllocatorState, work: () => Promise<T>): Promise<T> {
  state.deciding += 1
  const next = state.last_decision.then(work).finally(() => (state.deciding -= 1))
  state.last_decision = next.catch(() => undefined) // the caller of `inTurn` gets the error
  return next
}

export function decide<T>(state: AllocatorState, want: CapacityRequest, reserve: () => Promise<T>): Promise<Decision<T>> {
  return inTurn(state, async () => {
    enqueue(state, want)
    const { host } = state
    const short = host === null ? [] : await shortFor(state, want, host)
    if (short.length === 0) return grant(state, want, host, reserve)
    state.evictions.wanted()
    if (!state.is_reconciled) requestReconcile(state)
    return { kind: 'wait', short }
  })
}

async function shortFor(state: AllocatorState, want: CapacityRequest, host: HostCapacity): Promise<ShortResource[]> {
  // A stale total includes released capacity, so requests ahead may look unsatisfiable and get no reservation. All requests but the first
  // read the total again.
  const is_known = !state.is_partial && (!state.is_stale || inFairOrder(state)[0]?.id === want.id)
  const known = state.in_use === null ? null : shortIn(state, want, host, state.in_use)
  if (known !== null && (known.length === 0 ? is_known : !state.is_stale)) return known
  return shortIn(state, want, host, await readInUse(state, host, want.own ?? null))
}

/** Returns an empty list if the request fits. */
function shortIn(state: AllocatorState, want: CapacityRequest, host: HostCapacity, used: CapacityAmount): ShortResource[] {
  const aside = state.queue.size > 1 ? setAside(state, want, host, used) : { memory_mib: 0, disk_gib: 0 }
  const short: ShortResource[] = []
  if (used.memory_mib + aside.memory_mib + sizeOf(want, host) > host.memory_mib) short.push('memory_mib')
  if (want.disk_gib > 0 && used.disk_gib + aside.disk_gib + want.disk_gib > host.disk_gib) short.push('disk_gib')
  return short
}

/**
 * Capacity reserved for the requests ahead of this one. Reserves nothing for a request that eviction cannot satisfy or whose disk does
 * not fit: waiting would not help it.
 */
function setAside(state: AllocatorState, want: CapacityRequest, host: HostCapacity, used: CapacityAmount): CapacityAmount {
  const aside: CapacityAmount = { memory_mib: 0, disk_gib: 0 }
  const within_reach_mib = reachableMib(state, host)
  for (const other of inFairOrder(state)) {
    if (other.id === want.id) break
    const size_mib = sizeOf(other, host)
    if (aside.memory_mib + size_mib > within_reach_mib || used.disk_gib + aside.disk_gib + other.disk_gib > host.disk_gib) continue
    aside.memory_mib += size_mib
    aside.disk_gib += other.disk_gib
  }
  return aside
}

async function grant<T>(
  state: AllocatorState,
  want: CapacityRequest,
  host: HostCapacity | null,
  reserve: () => Promise<T>,
): Promise<Decision<T>> {
  try {
    const value = await reserve()
    if (value !== null && value !== undefined) {
      state.shares = afterGrant(state.shares, want)
      if (state.in_use !== null && host !== null) state.in_use = sumOf(state.in_use, want, host)
      state.is_partial = false
    }
    return { kind: 'given', value }
  } catch (error) {
    state.in_use = null // the reservation may or may not be written
    throw error
  } finally {
    dequeue(state, want.id)
    state.order = null
  }
}

function sumOf(in_use: CapacityAmount, want: CapacityRequest, host: HostCapacity): CapacityAmount {
  return { memory_mib: in_use.memory_mib + sizeOf(want, host), disk_gib: in_use.disk_gib + want.disk_gib }
}
