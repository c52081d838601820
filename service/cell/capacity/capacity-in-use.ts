import type { HostCapacity } from '../../../contract/internal/host-inventory.ts'
import type { Subject } from '../../../contract/internal/host-subject.ts'
import type { AllocatorState } from './allocator-state.ts'
import { readCapacityInUse, type CapacityAmount } from './capacity-store.ts'
import type { QueuedRequest } from './fair-order.ts'

/** @param but_of the machine to leave out, because its own request is being decided. */
export async function readInUse(
  state: AllocatorState,
  host: HostCapacity,
  but_of: Subject | null = null,
): Promise<CapacityAmount & { leaving_mib: number }> {
  const { db, cell_id, draining } = state
  state.is_stale = false
  state.is_partial = but_of !== null
  for (;;) {
    const leaving = draining.ids()
    const found = await readCapacityInUse(db, cell_id, host.headroom_mib, leaving, but_of)
    // Read again if the draining machines changed during the query. A machine that has ended would still be counted.
    // A machine that began to drain may be missing although it still exists.
    const now = new Set(draining.ids())
    if (leaving.length === now.size && leaving.every((id) => now.has(id))) {
      state.in_use = found
      return { ...found, leaving_mib: draining.soon_mib() }
    }
  }
}

/** Memory of the request's machine with its headroom. */
export function sizeOf(want: Pick<QueuedRequest, 'memory_mib'>, host: HostCapacity): number {
  return want.memory_mib + host.headroom_mib
}

/** Memory that is free, or that drains and evictions can free within seconds. */
export function reachableMib({ in_use, draining, evictions }: AllocatorState, host: HostCapacity): number {
  const known_free_mib = host.memory_mib - (in_use?.memory_mib ?? 0)
  return known_free_mib + draining.soon_mib() + evictions.evictable_mib()
}

export function isReachable(state: AllocatorState, want: Pick<QueuedRequest, 'memory_mib'>): boolean {
  return state.host === null || sizeOf(want, state.host) <= reachableMib(state, state.host)
}
