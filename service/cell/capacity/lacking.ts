import { inFairOrder, type AllocatorState } from './allocator-state.ts'
import { reachableMib, readInUse, sizeOf } from './capacity-in-use.ts'

/** Memory to evict for queued and refused requests. Runs in the queue of decisions. */
export async function lackingMib(state: AllocatorState, evictable_mib: number): Promise<number> {
  const { host, queue, refusals } = state
  if (host === null || (queue.size === 0 && refusals.left_mib() === 0)) return 0
  const now = await readInUse(state, host)
  const free_mib = host.memory_mib - now.memory_mib + now.leaving_mib
  let wanted_mib = 0
  for (const want of inFairOrder(state)) if (wanted_mib + sizeOf(want, host) <= free_mib + evictable_mib) wanted_mib += sizeOf(want, host)
  return Math.max(wanted_mib - free_mib, 0) + Math.max(refusals.left_mib() - now.leaving_mib, 0)
}

/** Disk to release for queued requests. Runs in the queue of decisions. */
export async function lackingGib(state: AllocatorState, evictable_gib: number): Promise<number> {
  const { host, queue } = state
  if (host === null || queue.size === 0) return 0
  const free_gib = host.disk_gib - (await readInUse(state, host)).disk_gib
  const within_reach_mib = reachableMib(state, host)
  let [wanted_mib, wanted_gib] = [0, 0]
  for (const want of inFairOrder(state)) {
    if (want.disk_gib === 0 || wanted_mib + sizeOf(want, host) > within_reach_mib) continue // disk alone does not help this request
    if (wanted_gib + want.disk_gib > free_gib + evictable_gib) continue
    wanted_mib += sizeOf(want, host)
    wanted_gib += want.disk_gib
  }
  return Math.max(wanted_gib - free_gib, 0)
}
