import { setTimeout } from 'node:timers/promises'
import type { AcquireOptions, CapacityRequest } from './allocator.ts'
import { announceRelease, dequeue, type AllocatorState } from './allocator-state.ts'
import { isReachable } from './capacity-in-use.ts'
import { decide } from './decision.ts'

/** Waiting requests look again after this time, because some releases send no notification. */
const LOOK_AGAIN_MS = 1000

export async function acquire<T>(
  state: AllocatorState,
  want: CapacityRequest,
  reserve: () => Promise<T>,
  limit_ms: number,
  { patient = false, signal, check }: AcquireOptions = {},
): Promise<{ value: T } | null> {
  const until_ms = performance.now() + limit_ms
  let is_given = false
  state.acquiring.add(want.id)
  try {
    for (;;) {
      signal?.throwIfAborted()
      check?.()
      state.is_stale = true
      // The wait begins before the decision: a release during it must not be missed.
      const next = waitForRelease(state, Math.min(LOOK_AGAIN_MS, Math.max(until_ms - performance.now(), 0)), signal)
      const decision = await decide(state, want, reserve)
      if (decision.kind === 'given') {
        is_given = decision.value !== null && decision.value !== undefined
        return { value: decision.value }
      }
      if ((!patient && !isReachable(state, want)) || performance.now() >= until_ms) return null
      await next
    }
  } finally {
    state.acquiring.delete(want.id)
    dequeue(state, want.id)
    if (!is_given) announceRelease(state) // its reservation is now free for later requests
  }
}

/** Resolves when capacity may have been released, at the limit, or when the signal aborts. */
function waitForRelease({ waits }: AllocatorState, limit_ms: number, signal?: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const ends = new AbortController()
  waits.add(resolve)
  signal?.addEventListener('abort', () => resolve(), { signal: ends.signal })
  void setTimeout(limit_ms, undefined, { signal: ends.signal }).then(resolve, () => undefined)
  return promise.finally(() => {
    waits.delete(resolve)
    ends.abort()
  })
}
