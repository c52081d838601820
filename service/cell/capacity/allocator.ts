import type { Db } from '../../db/database.ts'
import type { HostCapacity, Machine } from '../../../contract/internal/host-inventory.ts'
import type { Subject } from '../../../contract/internal/host-subject.ts'
import { acquire } from './acquire.ts'
import { dequeue, endWaits, inFairOrder, released, requestReconcile, setQueue, type AllocatorState } from './allocator-state.ts'
import { isReachable, reachableMib } from './capacity-in-use.ts'
import type { CapacityAmount } from './capacity-store.ts'
import { decide, inTurn } from './decision.ts'
import { afterGrant, NO_SHARES, type QueuedRequest } from './fair-order.ts'
import { createDrainingMachines, type Drain } from './draining.ts'
import { createRefusals } from './host-refusals.ts'
import { lackingGib, lackingMib } from './lacking.ts'

/** A request for a machine's memory and disk. */
export interface CapacityRequest extends QueuedRequest {
  /** The machine that the request is for. A reservation that an interrupted attempt has already made for this machine is not counted. */
  own?: Subject
}

export interface AcquireOptions {
  /** Waits also while no machine can be evicted. For builds, which have more time than a call. */
  patient?: boolean
  signal?: AbortSignal
  /** Called at least once a second while the request waits. @throws if the request is no longer needed. */
  check?: () => void
}

export type ShortResource = keyof CapacityAmount

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
  /** Updates the allocator with the host's capacity and its machines of workspaces. */
  describe(capacity: HostCapacity, machines: readonly Pick<Machine, 'subject' | 'fence'>[]): void
  /** null: the host has not reported yet. */
  capacity(): HostCapacity | null
  /** Marks the cached total as possibly stale: the next decision that needs more than the known free capacity reads it again. */
  markStale(): void
  /**
   * Replaces the queued operations. Requests that wait in `acquire` stay queued.
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
  /** Charges the memory as in use until the machine has ended, even if its row already says hibernated. */
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
  /** @returns a function that removes the listener. */
  onReleased(heard: () => void): () => void
  /** Requests a reconcile pass: the host may have an orphaned machine that uses capacity. */
  requestReconcile(): void
  /** Reports the result of a reconcile pass. While the last pass was incomplete, each request that must wait requests another pass. */
  noteReconciled(is_whole: boolean): void
  /** @returns a function that removes the listener. */
  onReconcileRequested(heard: () => void): () => void
  /** Memory to evict for as many queued requests as can be satisfied, in order, and for refused ones; 0: none, or enough drains already. */
  lacking_mib(evictable_mib: number): Promise<number>
  /** Disk to release for as many queued requests as can be satisfied, in order; 0: no disk is short. */
  lacking_gib(evictable_gib: number): Promise<number>
  waiting(): readonly CapacityRequest[]
  setEvictionSource(maker: EvictionSource): void
  state(): object
}

interface AllocatorContext {
  db: Db
  cell_id: string
  now_ms?: () => number
}

export function createCapacityAllocator(context: AllocatorContext): CapacityAllocator {
  const state = newState(context)
  return {
    describe: (capacity, machines) => describe(state, capacity, machines),
    capacity: () => state.host,
    markStale: () => void (state.is_stale = true),
    setQueue: (operations, places) => setQueue(state, operations, places),
    decide: (want, reserve) => decide(state, want, reserve),
    acquire: (want, reserve, limit_ms, options) => acquire(state, want, reserve, limit_ms, options),
    withdraw(id) {
      if (dequeue(state, id)) endWaits(state)
    },
    restoreShares: (given) => restoreShares(state, given),
    isReachable: (want) => isReachable(state, want),
    leaving: (workspace_id, memory_mib) => state.draining.leave(workspace_id, withHeadroom(state, memory_mib)),
    released: () => released(state),
    ended(workspace_id, fence) {
      if (state.draining.ended(workspace_id, fence)) released(state)
    },
    refused: (id, memory_mib) => refused(state, id, memory_mib),
    isRefused: () => state.refusals.left_mib() > 0,
    onReleased: (heard) => subscribe(state.release_listeners, heard),
    requestReconcile: () => requestReconcile(state),
    noteReconciled: (is_whole) => noteReconciled(state, is_whole),
    onReconcileRequested: (heard) => subscribe(state.reconcile_listeners, heard),
    lacking_mib: (evictable_mib) => inTurn(state, () => lackingMib(state, evictable_mib)),
    lacking_gib: (evictable_gib) => inTurn(state, () => lackingGib(state, evictable_gib)),
    waiting: () => inFairOrder(state),
    setEvictionSource: (source) => void (state.evictions = source),
    state: () => shownState(state),
  }
}

function newState({ db, cell_id, now_ms = () => performance.now() }: AllocatorContext): AllocatorState {
  const refusals = createRefusals(now_ms)
  const state: AllocatorState = {
    db,
    cell_id,
    draining: createDrainingMachines({
      now_ms,
      hasLeft: (memory_mib) => refusals.hasLeft(memory_mib),
      freed: () => released(state),
      doubt: () => requestReconcile(state),
    }),
    refusals,
    host: null,
    evictions: { wanted: () => undefined, evictable_mib: () => 0 },
    in_use: null,
    is_stale: true,
    is_partial: false,
    is_reconciled: true,
    queue: new Map(),
    order: null,
    shares: NO_SHARES,
    acquiring: new Set(),
    deciding: 0,
    last_decision: Promise.resolve(),
    waits: new Set(),
    release_listeners: new Set(),
    reconcile_listeners: new Set(),
  }
  return state
}

function describe(state: AllocatorState, capacity: HostCapacity, machines: readonly Pick<Machine, 'subject' | 'fence'>[]): void {
  state.host = capacity
  if (state.draining.compare(machines)) requestReconcile(state)
  released(state)
}

function restoreShares(state: AllocatorState, given: readonly Pick<QueuedRequest, 'organization_id' | 'memory_mib'>[]): void {
  state.shares = given.reduce(afterGrant, NO_SHARES)
  state.order = null
}

function refused(state: AllocatorState, id: string, memory_mib: number): void {
  state.refusals.note(id, withHeadroom(state, memory_mib))
  if (state.refusals.left_mib() > 0) state.evictions.wanted()
}

function withHeadroom({ host }: AllocatorState, memory_mib: number): number {
  return memory_mib + (host?.headroom_mib ?? 0)
}

function noteReconciled(state: AllocatorState, is_whole: boolean): void {
  state.is_reconciled = is_whole
  if (!is_whole && state.queue.size > 0) requestReconcile(state)
}

function subscribe(listeners: Set<() => void>, heard: () => void): () => void {
  listeners.add(heard)
  return () => listeners.delete(heard)
}

function shownState(state: AllocatorState): object {
  const { host, in_use, is_stale, is_partial, is_reconciled, draining, refusals, evictions, acquiring, deciding } = state
  return {
    capacity: host,
    taken: in_use,
    is_stale,
    is_partial,
    is_compared: is_reconciled,
    gone: draining.state(),
    refusals: refusals.state(),
    reachable_mib: host === null ? null : reachableMib(state, host),
    evictable_mib: evictions.evictable_mib(),
    waiting: inFairOrder(state),
    taking: [...acquiring],
    deciding,
  }
}
