import { setTimeout } from 'node:timers/promises'
import type { Db } from '../../db/database.ts'
import type { HostCapacity, Machine } from '../links/hostd.ts'
import type { Subject } from '../links/subject.ts'
import { afterTurn, fairOrder, NO_TURNS, type Turns, type Waiter } from './fair-order.ts'
import { createLeavings, type Leaving } from './leavings.ts'
import { createRefusals } from './refusals.ts'
import { readTaken, type Room as Taken } from './room-store.ts'

/** What a machine is told, and who asks for it. */
export interface Want extends Waiter {
  /** The machine that it is for, where an attempt that was cut short may have reserved for it: that is not counted against it. */
  own?: Subject
}

export interface TakeOptions {
  /** Waits also while no machine could leave: it has longer than a call. */
  patient?: boolean
  /** Fires when it waits no more. */
  signal?: AbortSignal
  /** Asked each second at least while it waits. @throws where it is needed no more. */
  check?: () => void
}

/** What there is too little of. */
export type Short = keyof Taken

/** @property short every resource that it lacks, memory before disk. */
export type Decision<T> = { kind: 'given'; value: T } | { kind: 'wait'; short: readonly Short[] }

/** Whoever makes room while somebody waits for it. */
export interface RoomMaker {
  /** Somebody waits. */
  wanted(): void
  /** Memory of machines that may be made to leave within seconds, with their headroom. */
  evictable_mib(): number
}

/**
 * The one book of this computer's memory and disk. Every machine that is started, woken or replaced is decided here, one decision at a
 * time: read what is taken, see whether it fits, write the reservation. What does not fit waits, and somebody makes room for it.
 */
export interface Room {
  /** What the host says of the whole computer and of the machines of workspaces that it has. */
  describe(capacity: HostCapacity, machines: readonly Pick<Machine, 'subject' | 'fence'>[]): void
  /** The whole computer; null: the host has not said yet. */
  capacity(): HostCapacity | null
  /** What is known may be out of date: the next decision that needs more than is known to be free reads it again. */
  review(): void
  /**
   * These operations wait or are about to ask, and of those that asked by `decide` no others do.
   * @param places how many of them may begin at all: 0 sets nothing aside for them.
   * @returns them in the order in which they are given room.
   */
  expect<W extends Want>(operations: readonly W[], places: number): W[]
  /**
   * Gives room, or a place in the waiting list. Who waits is set aside for: what comes behind gets only what all before it leave.
   * @param reserve writes the reservation; null or undefined: it was not needed any more.
   */
  decide<T>(want: Want, reserve: () => Promise<T>): Promise<Decision<T>>
  /**
   * decide, again and again until there is room. @returns null where none can be made, or none was within the time.
   * @param limit_ms how long to wait.
   */
  take<T>(want: Want, reserve: () => Promise<T>, limit_ms: number, options?: TakeOptions): Promise<{ value: T } | null>
  withdraw(id: string): void
  /** What this cell gave before its process began, the oldest first: turns go on where they were. */
  recall(given: readonly Pick<Waiter, 'organization_id' | 'memory_mib'>[]): void
  /** Whether room may come within seconds for it alone. */
  isReachable(want: Pick<Waiter, 'memory_mib'>): boolean
  /** Held from before its row says that it is gone until its machine is. */
  leaving(workspace_id: string, memory_mib: number): Leaving
  /** Something has ended: what waits may look again. */
  freed(): void
  /** A machine that lingered has ended. */
  ended(workspace_id: string, fence: number): void
  /**
   * The host has refused what was given. It knows of less capacity than the book, so machines must leave for this although the book says
   * that it fits. What is refused no more is forgotten after some seconds.
   */
  refused(id: string, memory_mib: number): void
  /** Whether machines must leave for what the host has refused. */
  isRefused(): boolean
  /** @returns what ends it. */
  onFreed(heard: () => void): () => void
  /** The host may have a machine that nobody wants, and that keeps its room: the sooner both are compared, the better. */
  doubt(): void
  /** The engine reports each comparison. While the last one failed, each want that waits asks for another. */
  compared(is_whole: boolean): void
  /** @returns what ends it. */
  onDoubt(heard: () => void): () => void
  /** What must leave for as many of those that wait as can be helped, in their order, and for what the host has refused; 0: nothing waits, or enough leaves already. */
  lacking_mib(evictable_mib: number): Promise<number>
  /** Disk that must be given back for as many of those that wait as can be helped, in their order; 0: no disk is short. */
  lacking_gib(evictable_gib: number): Promise<number>
  waiting(): readonly Want[]
  madeBy(maker: RoomMaker): void
  /** For failures and logs. */
  state(): object
}

/** A look for whoever was not told: what ends by other ways than these tells nobody. */
const LOOK_AGAIN_MS = 1000

interface RoomContext {
  db: Db
  cell_id: string
  /** Tests move it. */
  now_ms?: () => number
}

export function createRoom({ db, cell_id, now_ms = () => performance.now() }: RoomContext): Room {
  const refusals = createRefusals(now_ms)
  const list = new Map<string, Want>()
  const heard = new Set<() => void>()
  const doubters = new Set<() => void>()
  const pokes = new Set<() => void>()
  /** Those that wait in `take`. */
  const taking = new Set<string>()
  let capacity: HostCapacity | null = null
  let turns: Turns = NO_TURNS
  let maker: RoomMaker = { wanted: () => undefined, evictable_mib: () => 0 }
  /** Not less than what is taken: what was given is added, what was given back is found out when it is needed. */
  let taken: Taken | null = null
  let is_stale = true
  /** The last comparison put right all that it found. */
  let is_compared = true
  /** It leaves out the machine of the one that it was read for, which may be there: nothing is given by it to others. */
  let is_partial = false
  let order: Want[] | null = null
  let last: Promise<unknown> = Promise.resolve()

  /** Decisions that are not made yet. */
  let deciding = 0

  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    deciding += 1
    const next = last.then(work).finally(() => (deciding -= 1))
    last = next.catch(() => undefined) // whoever asked is told
    return next
  }
  const sizeOf = (want: Pick<Waiter, 'memory_mib'>, host: HostCapacity) => want.memory_mib + host.headroom_mib
  const read = async (host: HostCapacity, but_of: Subject | null = null): Promise<Taken & { leaving_mib: number }> => {
    is_stale = false
    is_partial = but_of !== null
    for (;;) {
      const leaving = gone.ids()
      const found = await readTaken(db, cell_id, host.headroom_mib, leaving, but_of)
      // What has ended meanwhile is counted in them still, and would be missed by whoever adds up what comes. What has begun to leave
      // meanwhile may be missing in them already, while its machine is there.
      const now = new Set(gone.ids())
      if (leaving.length === now.size && leaving.every((id) => now.has(id))) {
        taken = found
        return { ...found, leaving_mib: gone.soon_mib() }
      }
    }
  }
  const known_free_mib = (host: HostCapacity) => host.memory_mib - (taken?.memory_mib ?? 0)
  const reachable_mib = (host: HostCapacity) => known_free_mib(host) + gone.soon_mib() + maker.evictable_mib()
  const inOrder = (): Want[] => (order ??= fairOrder([...list.values()], turns))
  const put = (want: Want) => {
    if (list.get(want.id) !== want) order = null
    list.set(want.id, want)
  }
  const drop = (id: string): boolean => {
    const was_there = list.delete(id)
    if (was_there) order = null
    return was_there
  }
  /**
   * What is set aside for those before it. Not for one whose memory nobody can make, nor for a disk that does not fit: nothing is gained
   * for them by what others go without.
   */
  const setAside = (want: Want, host: HostCapacity, used: Taken): Taken => {
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
  /** Empty: it fits. */
  const shortIn = (want: Want, host: HostCapacity, used: Taken): Short[] => {
    const aside = list.size > 1 ? setAside(want, host, used) : { memory_mib: 0, disk_gib: 0 }
    const short: Short[] = []
    if (used.memory_mib + aside.memory_mib + sizeOf(want, host) > host.memory_mib) short.push('memory_mib')
    if (want.disk_gib > 0 && used.disk_gib + aside.disk_gib + want.disk_gib > host.disk_gib) short.push('disk_gib')
    return short
  }
  const shortFor = async (want: Want, host: HostCapacity): Promise<Short[]> => {
    // What was given back since is missing in what is known. So those before it seem out of reach who are not, and nothing is set aside
    // for them: whoever is not the first looks again.
    const is_known = !is_partial && (!is_stale || inOrder()[0]?.id === want.id)
    const known = taken === null ? null : shortIn(want, host, taken)
    if (known !== null && (known.length === 0 ? is_known : !is_stale)) return known
    return shortIn(want, host, await read(host, want.own ?? null))
  }
  const give = async <T>(want: Want, host: HostCapacity | null, reserve: () => Promise<T>): Promise<Decision<T>> => {
    try {
      const value = await reserve()
      if (value !== null && value !== undefined) {
        turns = afterTurn(turns, want)
        if (taken !== null && host !== null)
          taken = { memory_mib: taken.memory_mib + sizeOf(want, host), disk_gib: taken.disk_gib + want.disk_gib }
        is_partial = false
      }
      return { kind: 'given', value }
    } catch (error) {
      taken = null // nobody knows whether it was written
      throw error
    } finally {
      drop(want.id)
      order = null
    }
  }
  const decide = <T>(want: Want, reserve: () => Promise<T>): Promise<Decision<T>> =>
    inTurn(async () => {
      put(want)
      const host = capacity
      const short = host === null ? [] : await shortFor(want, host)
      if (short.length === 0) return give(want, host, reserve)
      maker.wanted()
      if (!is_compared) doubt()
      return { kind: 'wait', short }
    })
  const isReachable = (want: Pick<Waiter, 'memory_mib'>) => capacity === null || sizeOf(want, capacity) <= reachable_mib(capacity)
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
  const gone = createLeavings({ now_ms, hasLeft: (memory_mib) => refusals.hasLeft(memory_mib), freed, doubt })

  return {
    describe(described, machines) {
      capacity = described
      if (gone.compare(machines)) doubt()
      freed()
    },
    capacity: () => capacity,
    review() {
      is_stale = true
    },
    expect(operations, places) {
      const asked = new Map((places > 0 ? operations : []).map((want) => [want.id, want]))
      for (const id of list.keys()) if (!taking.has(id) && !asked.has(id)) drop(id)
      for (const want of asked.values()) put(want)
      return fairOrder(operations, turns)
    },
    decide,
    async take(want, reserve, limit_ms, { patient = false, signal, check } = {}) {
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
        if (!is_given) tellAll() // what was set aside for it is theirs that come behind
      }
    },
    recall(given) {
      turns = given.reduce(afterTurn, NO_TURNS)
      order = null
    },
    withdraw(id) {
      if (drop(id)) pokeWakes()
    },
    isReachable,
    leaving: (workspace_id, memory_mib) => gone.leave(workspace_id, memory_mib + (capacity?.headroom_mib ?? 0)),
    freed,
    ended(workspace_id, fence) {
      if (gone.ended(workspace_id, fence)) freed()
    },
    refused(id, memory_mib) {
      refusals.note(id, memory_mib + (capacity?.headroom_mib ?? 0))
      if (refusals.left_mib() > 0) maker.wanted()
    },
    isRefused: () => refusals.left_mib() > 0,
    onFreed(one) {
      heard.add(one)
      return () => heard.delete(one)
    },
    doubt,
    compared(is_whole) {
      is_compared = is_whole
      if (!is_whole && list.size > 0) doubt()
    },
    onDoubt(one) {
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
          if (want.disk_gib === 0 || wanted_mib + sizeOf(want, host) > within_reach_mib) continue // its disk alone does not help it
          if (wanted_gib + want.disk_gib > free_gib + evictable_gib) continue
          wanted_mib += sizeOf(want, host)
          wanted_gib += want.disk_gib
        }
        return Math.max(wanted_gib - free_gib, 0)
      }),
    waiting: inOrder,
    madeBy(one) {
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
