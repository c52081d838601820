import { setTimeout } from 'node:timers/promises'
import type { HostCapacity, Machine } from '../../../contract/internal/host-inventory.ts'
import type { Subject } from '../../../contract/internal/host-subject.ts'
import type { Db } from '../../db/database.ts'
import { afterGrant, fairOrder, NO_SHARES, type FairShares, type QueuedRequest } from './fair-order.ts'
import { createDrainingMachines, type Drain } from './draining.ts'
import { createRefusals } from './host-refusals.ts'
import { readCapacityInUse, type CapacityAmount as Taken } from './capacity-store.ts'

/** A request for a machine's memory and disk. */
export interface CapacityRequest extends QueuedRequest {
  /** The machine that the request is for. An interrupted attempt may have reserved for it already: that reservation is not counted. */
  own?: Subject
}

export interface AcquireOptions {
  /** Waits also while no machine can be evicted. For builds, which have more time than a call. */
  patient?: boolean
  signal?: AbortSignal
  /** Called at least once a second while the request waits. @throws if the request is no longer needed. */
  check?: () => void
}

export type ShortResource = keyof Taken

/** @property short every resource that is lacking, memory before disk. */
export type Decision<T> = { kind: 'given'; value: T } | { kind: 'wait'; short: readonly ShortResource[] }

/** Evicts machines while requests wait. */
export interface EvictionSource {
  wanted(): void
  /** Memory that can be evicted within seconds, with headroom. */
  evictable_mib(): number
}

/**
 * The ledger of this computer's memory and disk. It decides every start, wake and replacement of a machine, one at a time:
 * read what is in use, check that the request fits, write the reservation. Requests that do not fit wait for evictions.
 */
export interface CapacityAllocator {
  /** Takes the host's capacity and its machines of workspaces. */
  describe(capacity: HostCapacity, machines: readonly Pick<Machine, 'subject' | 'fence'>[]): void
  /** null: the host has not reported yet. */
  capacity(): HostCapacity | null
  /** Marks the cached total as possibly stale: the next decision that needs more than the known free capacity reads it again. */
  markStale(): void
  /**
   * Replaces the queued operations. Requests that wait in `take` stay queued.
   * @param places how many operations may start; 0 queues none, so nothing is reserved for them.
   * @returns the operations in fair-share order.
   */
  setQueue<W extends CapacityRequest>(operations: readonly W[], places: number): W[]
  /**
   * Grants a request or queues it. Capacity is reserved for queued requests in order; later requests get the rest.
   * @param reserve writes the reservation; it returns null or undefined if none is needed any more.
   */
  decide<T>(want: CapacityRequest, reserve: () => Promise<T>): Promise<Decision<T>>
  /**
   * Repeats `decide` until the request is granted.
   * @returns null if capacity cannot be made, or was not free within `limit_ms`.
   */
  acquire<T>(want: CapacityRequest, reserve: () => Promise<T>, limit_ms: number, options?: AcquireOptions): Promise<{ value: T } | null>
  withdraw(id: string): void
  /** Restores fair shares after a restart. @param given grants of this cell before this process, oldest first. */
  restoreShares(given: readonly Pick<QueuedRequest, 'organization_id' | 'memory_mib'>[]): void
  /** Whether capacity for this request alone may become free within seconds. */
  isReachable(want: Pick<QueuedRequest, 'memory_mib'>): boolean
  /** Counts the memory as in use until the machine has ended, even if the row already says hibernated. */
  leaving(workspace_id: string, memory_mib: number): Drain
  /** Capacity may have been released: waiting requests try again. */
  released(): void
  /** A machine that could not be stopped before has ended. */
  ended(workspace_id: string, fence: number): void
  /**
   * The host refused a granted request, so it has less capacity than the ledger counts: machines must be evicted for it.
   * The refusal is forgotten some seconds after its last repetition.
   */
  refused(id: string, memory_mib: number): void
  isRefused(): boolean
  /** @returns unsubscribe. */
  onReleased(heard: () => void): () => void
  /** Requests a reconcile pass: the host may have a machine that holds capacity for no workspace. */
  requestReconcile(): void
  /** Reports the result of a reconcile pass. While the last one was incomplete, each request that must wait asks for another. */
  noteReconciled(is_whole: boolean): void
  /** @returns unsubscribe. */
  onReconcileRequested(heard: () => void): () => void
  /** Memory to evict for as many queued requests as can be satisfied, in order, and for refused ones; 0: none, or enough drains already. */
  lacking_mib(evictable_mib: number): Promise<number>
  /** Disk to release for as many queued requests as can be satisfied, in order; 0: no disk is short. */
  lacking_gib(evictable_gib: number): Promise<number>
  waiting(): readonly CapacityRequest[]
  setEvictionSource(maker: EvictionSource): void
  state(): object
}

/** Polling interval: some releases send no notification. */
const LOOK_AGAIN_MS = 1000

interface RoomContext {
  db: Db
  cell_id: string
  now_ms?: () => number
}

export function createCapacityAllocator({ db, cell_id, now_ms = () => performance.now() }: RoomContext): CapacityAllocator {
  const refusals = createRefusals(now_ms)
  const list = new Map<string, CapacityRequest>()
  const heard = new Set<() => void>()
  const doubters = new Set<() => void>()
  const pokes = new Set<() => void>()
  /** Ids of requests that wait in `take`. */
  const taking = new Set<string>()
  let capacity: HostCapacity | null = null
  let turns: FairShares = NO_SHARES
  let maker: EvictionSource = { wanted: () => undefined, evictable_mib: () => 0 }
  /** Upper bound of capacity in use: grants are added at once, releases are seen at the next read; null: not known. */
  let taken: Taken | null = null
  let is_stale = true
  /** The last reconcile pass fixed all that it found. */
  let is_compared = true
  /** `taken` leaves out the machine of one request, which may exist: no other request may be granted by it. */
  let is_partial = false
  let order: CapacityRequest[] | null = null
  let last: Promise<unknown> = Promise.resolve()

  let deciding = 0

  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    deciding += 1
    const next = last.then(work).finally(() => (deciding -= 1))
    last = next.catch(() => undefined) // the caller of `inTurn` gets the error
    return next
  }
  const sizeOf = (want: Pick<QueuedRequest, 'memory_mib'>, host: HostCapacity) => want.memory_mib + host.headroom_mib
  const read = async (host: HostCapacity, but_of: Subject | null = null): Promise<Taken & { leaving_mib: number }> => {
    is_stale = false
    is_partial = but_of !== null
    for (;;) {
      const leaving = gone.ids()
      const found = await readCapacityInUse(db, cell_id, host.headroom_mib, leaving, but_of)
      // Read again if the draining machines changed during the query. A machine that has ended would still be counted.
      // A machine that began to drain may be missing although it still exists.
      const now = new Set(gone.ids())
      if (leaving.length === now.size && leaving.every((id) => now.has(id))) {
        taken = found
        return { ...found, leaving_mib: gone.soon_mib() }
      }
    }
  }
  const known_free_mib = (host: HostCapacity) => host.memory_mib - (taken?.memory_mib ?? 0)
  const reachable_mib = (host: HostCapacity) => known_free_mib(host) + gone.soon_mib() + maker.evictable_mib()
  const inOrder = (): CapacityRequest[] => (order ??= fairOrder([...list.values()], turns))
  const put = (want: CapacityRequest) => {
    if (list.get(want.id) !== want) order = null
    list.set(want.id, want)
  }
  const drop = (id: string): boolean => {
    const was_there = list.delete(id)
    if (was_there) order = null
    return was_there
  }
  /**
   * Capacity reserved for the requests ahead of this one. Reserves nothing for a request that eviction cannot satisfy or whose disk does
   * not fit: waiting would not help it.
   */
  const setAside = (want: CapacityRequest, host: HostCapacity, used: Taken): Taken => {
    const aside: Taken = { memory_mib: 0, disk_gib: 0 }
    const within_reach_mib = reachable_mib(host)
    for (const other of inOrder()) {
      if (other.id === want.id) break
      const size_mib = sizeOf(other, host)
      if (aside.memory_mib + size_mib > within_reach_mib || used.disk_gib + aside.disk_gib + other.disk_gib > host.disk_gib) continue
      aside.memory_mib += size_mib
      aside.disk_gib += other.disk_gib
    }
    return aside
  }
  /** Returns an empty list if the request fits. */
  const shortIn = (want: CapacityRequest, host: HostCapacity, used: Taken): ShortResource[] => {
    const aside = list.size > 1 ? setAside(want, host, used) : { memory_mib: 0, disk_gib: 0 }
    const short: ShortResource[] = []
    if (used.memory_mib + aside.memory_mib + sizeOf(want, host) > host.memory_mib) short.push('memory_mib')
    if (want.disk_gib > 0 && used.disk_gib + aside.disk_gib + want.disk_gib > host.disk_gib) short.push('disk_gib')
    return short
  }
  const shortFor = async (want: CapacityRequest, host: HostCapacity): Promise<ShortResource[]> => {
    // A stale total misses recent releases, so requests ahead may look unsatisfiable and get no reservation. All but the first re-read.
    const is_known = !is_partial && (!is_stale || inOrder()[0]?.id === want.id)
    const known = taken === null ? null : shortIn(want, host, taken)
    if (known !== null && (known.length === 0 ? is_known : !is_stale)) return known
    return shortIn(want, host, await read(host, want.own ?? null))
  }
  const give = async <T>(want: CapacityRequest, host: HostCapacity | null, reserve: () => Promise<T>): Promise<Decision<T>> => {
    try {
      const value = await reserve()
      if (value !== null && value !== undefined) {
        turns = afterGrant(turns, want)
        if (taken !== null && host !== null)
          taken = { memory_mib: taken.memory_mib + sizeOf(want, host), disk_gib: taken.disk_gib + want.disk_gib }
        is_partial = false
      }
      return { kind: 'given', value }
    } catch (error) {
      taken = null // the reservation may or may not be written
      throw error
    } finally {
      drop(want.id)
      order = null
    }
  }
  const decide = <T>(want: CapacityRequest, reserve: () => Promise<T>): Promise<Decision<T>> =>
    inTurn(async () => {
      put(want)
      const host = capacity
      const short = host === null ? [] : await shortFor(want, host)
      if (short.length === 0) return give(want, host, reserve)
      maker.wanted()
      if (!is_compared) doubt()
      return { kind: 'wait', short }
    })
  const isReachable = (want: Pick<QueuedRequest, 'memory_mib'>) => capacity === null || sizeOf(want, capacity) <= reachable_mib(capacity)
  const poked = (limit_ms: number, signal?: AbortSignal): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const ends = new AbortController()
    pokes.add(resolve)
    signal?.addEventListener('abort', () => resolve(), { signal: ends.signal })
    void setTimeout(limit_ms, undefined, { signal: ends.signal }).then(resolve, () => undefined)
    return promise.finally(() => {
      pokes.delete(resolve)
      ends.abort()
    })
  }
  const pokeWakes = () => {
    for (const poke of pokes) poke()
  }
  const tellAll = () => {
    pokeWakes()
    for (const one of heard) one()
  }
  const freed = () => {
    is_stale = true
    tellAll()
  }
  const doubt = () => {
    for (const one of doubters) one()
  }
  const gone = createDrainingMachines({ now_ms, hasLeft: (memory_mib) => refusals.hasLeft(memory_mib), freed, doubt })

  return {
    describe(described, machines) {
      capacity = described
      if (gone.compare(machines)) doubt()
      freed()
    },
    capacity: () => capacity,
    markStale() {
      is_stale = true
    },
    setQueue(operations, places) {
      const asked = new Map((places > 0 ? operations : []).map((want) => [want.id, want]))
      for (const id of list.keys()) if (!taking.has(id) && !asked.has(id)) drop(id)
      for (const want of asked.values()) put(want)
      return fairOrder(operations, turns)
    },
    decide,
    async acquire(want, reserve, limit_ms, { patient = false, signal, check } = {}) {
      const until_ms = performance.now() + limit_ms
      let is_given = false
      taking.add(want.id)
      try {
        for (;;) {
          signal?.throwIfAborted()
          check?.()
          is_stale = true
          const next = poked(Math.min(LOOK_AGAIN_MS, Math.max(until_ms - performance.now(), 0)), signal)
          const decision = await decide(want, reserve)
          if (decision.kind === 'given') {
            is_given = decision.value !== null && decision.value !== undefined
            return { value: decision.value }
          }
          if ((!patient && !isReachable(want)) || performance.now() >= until_ms) return null
          await next
        }
      } finally {
        taking.delete(want.id)
        drop(want.id)
        if (!is_given) tellAll() // its reservation is now free for later requests
      }
    },
    restoreShares(given) {
      turns = given.reduce(afterGrant, NO_SHARES)
      order = null
    },
    withdraw(id) {
      if (drop(id)) pokeWakes()
    },
    isReachable,
    leaving: (workspace_id, memory_mib) => gone.leave(workspace_id, memory_mib + (capacity?.headroom_mib ?? 0)),
    released: freed,
    ended(workspace_id, fence) {
      if (gone.ended(workspace_id, fence)) freed()
    },
    refused(id, memory_mib) {
      refusals.note(id, memory_mib + (capacity?.headroom_mib ?? 0))
      if (refusals.left_mib() > 0) maker.wanted()
    },
    isRefused: () => refusals.left_mib() > 0,
    onReleased(one) {
      heard.add(one)
      return () => heard.delete(one)
    },
    requestReconcile: doubt,
    noteReconciled(is_whole) {
      is_compared = is_whole
      if (!is_whole && list.size > 0) doubt()
    },
    onReconcileRequested(one) {
      doubters.add(one)
      return () => doubters.delete(one)
    },
    lacking_mib: (evictable_mib) =>
      inTurn(async () => {
        if (capacity === null || (list.size === 0 && refusals.left_mib() === 0)) return 0
        const host = capacity
        const now = await read(host)
        const free_mib = host.memory_mib - now.memory_mib + now.leaving_mib
        let wanted_mib = 0
        for (const want of inOrder()) if (wanted_mib + sizeOf(want, host) <= free_mib + evictable_mib) wanted_mib += sizeOf(want, host)
        return Math.max(wanted_mib - free_mib, 0) + Math.max(refusals.left_mib() - now.leaving_mib, 0)
      }),
    lacking_gib: (evictable_gib) =>
      inTurn(async () => {
        if (capacity === null || list.size === 0) return 0
        const host = capacity
        const free_gib = host.disk_gib - (await read(host)).disk_gib
        const within_reach_mib = reachable_mib(host)
        let [wanted_mib, wanted_gib] = [0, 0]
        for (const want of inOrder()) {
          if (want.disk_gib === 0 || wanted_mib + sizeOf(want, host) > within_reach_mib) continue // disk alone does not help it
          if (wanted_gib + want.disk_gib > free_gib + evictable_gib) continue
          wanted_mib += sizeOf(want, host)
          wanted_gib += want.disk_gib
        }
        return Math.max(wanted_gib - free_gib, 0)
      }),
    waiting: inOrder,
    setEvictionSource(one) {
      maker = one
    },
    state: () => ({
      capacity,
      taken,
      is_stale,
      is_partial,
      is_compared,
      gone: gone.state(),
      refusals: refusals.state(),
      reachable_mib: capacity === null ? null : reachable_mib(capacity),
      evictable_mib: maker.evictable_mib(),
      waiting: inOrder(),
      taking: [...taking],
      deciding,
    }),
  }
}
