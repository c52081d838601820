import type { Failure } from './fail.ts'

/** Fair semaphore: limits concurrent work. Names (tenants, addresses) take turns, so that each name waits only for its own work. */
export interface FairSemaphore {
  /**
   * Runs the work when it is the name's turn.
   * @param signal ends the wait with the signal's reason; the work must observe the signal itself
   * @throws the error of `refusal` if too much waits already, or if the work waits too long
   */
  run<Result>(name: string, work: () => Promise<Result>, signal?: AbortSignal): Promise<Result>
  waiting(): number
}

/** An absent limit means no limit. */
export interface FairSemaphoreLimits {
  at_once?: number
  at_once_per_name?: number
  waiting?: number
  waiting_per_name?: number
  wait_ms?: number
}

interface Waiter {
  resolve: () => void
  reject: (error: unknown) => void
}

interface FairQueue {
  limits: FairSemaphoreLimits
  refusal: () => Failure
  running: KeyedCounts
  /** Waiting work by name, in the order of the names' turns. */
  lines: Map<string, Waiter[]>
  waiting: number
}

export function createFairSemaphore(limits: FairSemaphoreLimits, refusal: () => Failure): FairSemaphore {
  const queue: FairQueue = { limits, refusal, running: createKeyedCounts(), lines: new Map(), waiting: 0 }
  return {
    run: (name, work, signal) => runQueued(queue, name, work, signal),
    waiting: () => queue.waiting,
  }
}

async function runQueued<Result>(
  queue: FairQueue,
  name: string,
  work: () => Promise<Result>,
  signal: AbortSignal | undefined,
): Promise<Result> {
  if (mayRun(queue, name)) queue.running.add(name, 1)
  else await waitForPermit(queue, name, signal)
  try {
    return await work()
  } finally {
    queue.running.add(name, -1)
    handOver(queue)
  }
}

function mayRun({ limits, running }: FairQueue, name: string): boolean {
  return running.total() < (limits.at_once ?? Infinity) && running.of(name) < (limits.at_once_per_name ?? Infinity)
}

/** Resolves when finished work passes its permit to this waiter. */
async function waitForPermit(queue: FairQueue, name: string, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted()
  const { limits, refusal, lines } = queue
  const line = lines.get(name) ?? []
  if (line.length >= (limits.waiting_per_name ?? Infinity)) throw refusal()
  if (queue.waiting >= (limits.waiting ?? Infinity)) dropFromLongest(queue, line.length)
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const waiter = { resolve, reject }
  lines.set(name, line)
  line.push(waiter)
  queue.waiting += 1
  const giveUp = () => {
    if (leave(queue, name, waiter)) reject(signal?.aborted ? signal.reason : refusal())
  }
  const late = limits.wait_ms === undefined ? undefined : setTimeout(giveUp, limits.wait_ms)
  signal?.addEventListener('abort', giveUp, { once: true })
  try {
    await promise
  } finally {
    clearTimeout(late)
    signal?.removeEventListener('abort', giveUp)
  }
}

/** Starts each waiter that may run. It is removed and resolved in one step, so that no permit goes to a waiter that has left. */
function handOver(queue: FairQueue): void {
  const { limits, running, lines } = queue
  for (const [name, line] of lines) {
    if (running.total() >= (limits.at_once ?? Infinity)) return
    if (!mayRun(queue, name)) continue
    const waiter = line.shift()
    lines.delete(name)
    if (line.length > 0) lines.set(name, line) // behind all others
    queue.waiting -= 1
    running.add(name, 1)
    waiter?.resolve()
  }
}

/** Removes the last entry of the longest queue to make space, so that a new name can always wait. */
function dropFromLongest(queue: FairQueue, length: number): void {
  let [longest, name] = [0, '']
  for (const [each, line] of queue.lines) if (line.length > longest) [longest, name] = [line.length, each]
  const last = queue.lines.get(name)?.at(-1)
  if (last === undefined || longest <= length + 1) throw queue.refusal()
  leave(queue, name, last)
  last.reject(queue.refusal())
}

/** @returns false if the waiter already has its permit, or has already left */
function leave(queue: FairQueue, name: string, waiter: Waiter): boolean {
  const line = queue.lines.get(name)
  const at = line?.indexOf(waiter) ?? -1
  if (line === undefined || at < 0) return false
  line.splice(at, 1)
  if (line.length === 0) queue.lines.delete(name)
  queue.waiting -= 1
  return true
}

/** @returns a semaphore that runs this much work at once, and the rest in order. Any amount may wait, so its callers must limit it. */
export function createSemaphore(at_once: number): <T>(work: () => Promise<T>) => Promise<T> {
  const only = createFairSemaphore({ at_once }, unreachable)
  return (work) => only.run('', work)
}

function unreachable(): never {
  throw new Error('A semaphore without a bound of its queue has refused work')
}

/** Amounts by name. A name whose amount is zero uses no memory. */
export interface KeyedCounts {
  of(name: string): number
  /** Sum of all names. */
  total(): number
  /** @param amount may be negative, which subtracts */
  add(name: string, amount: number): void
  /** Adds one until the result is disposed. A second disposal has no effect. */
  take(name: string): Disposable
}

export function createKeyedCounts(): KeyedCounts {
  const amounts = new Map<string, number>()
  let total = 0
  const add = (name: string, amount: number) => {
    total += amount
    const sum = (amounts.get(name) ?? 0) + amount
    if (sum === 0) amounts.delete(name)
    else amounts.set(name, sum)
  }
  return {
    of: (name) => amounts.get(name) ?? 0,
    total: () => total,
    add,
    take(name) {
      add(name, 1)
      let left = 1
      return {
        [Symbol.dispose]() {
          if (left > 0) add(name, -left)
          left = 0
        },
      }
    },
  }
}
