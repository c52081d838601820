import type { Failure } from './fail.ts'

/** Fair semaphore: bounds concurrent work. Names (tenants, addresses) alternate, so that each waits behind its own work only. */
export interface FairSemaphore {
  /**
   * Runs the work when its name is due.
   * @param signal ends the waiting; the work must observe it itself
   * @throws the error of `refusal` if too much waits already
   */
  run<Result>(name: string, work: () => Promise<Result>, signal?: AbortSignal): Promise<Result>
  waiting(): number
}

export interface FairSemaphoreLimits {
  at_once: number
  /** Concurrent work of one name; absent: no limit of its own. */
  at_once_per_name?: number
  waiting_per_name: number
  waiting: number
}

interface Waiter {
  resolve(): void
  reject(error: unknown): void
}

export function createFairSemaphore(limits: FairSemaphoreLimits, refusal: () => Failure): FairSemaphore {
  const { at_once, at_once_per_name = at_once } = limits
  const lines = new Map<string, Waiter[]>() // in the order in which the names are due
  const running = new Map<string, number>()
  let all_running = 0
  let waiting = 0

  const mayRun = (name: string) => all_running < at_once && (running.get(name) ?? 0) < at_once_per_name
  const begin = (name: string): void => {
    all_running += 1
    running.set(name, (running.get(name) ?? 0) + 1)
  }
  const end = (name: string): void => {
    all_running -= 1
    const left = (running.get(name) ?? 1) - 1
    if (left === 0) running.delete(name)
    else running.set(name, left)
    for (const [next, line] of lines) {
      if (all_running >= at_once) return
      if (!mayRun(next)) continue
      const waiter = line.shift()
      lines.delete(next)
      if (line.length > 0) lines.set(next, line) // behind all others
      waiting -= 1
      begin(next)
      waiter?.resolve()
    }
  }
  const leave = (name: string, waiter: Waiter): boolean => {
    const line = lines.get(name)
    const at = line?.indexOf(waiter) ?? -1
    if (line === undefined || at < 0) return false
    line.splice(at, 1)
    if (line.length === 0) lines.delete(name)
    waiting -= 1
    return true
  }
  /** Removes the last entry of the longest queue, so that a new name can always wait. */
  const dropFromLongest = (length: number): void => {
    let [longest, name] = [0, '']
    for (const [each, line] of lines) if (line.length > longest) [longest, name] = [line.length, each]
    const last = lines.get(name)?.at(-1)
    if (last === undefined || longest <= length + 1) throw refusal()
    leave(name, last)
    last.reject(refusal())
  }
  const stand = async (name: string, signal: AbortSignal | undefined): Promise<void> => {
    signal?.throwIfAborted()
    const line = lines.get(name) ?? []
    if (line.length >= limits.waiting_per_name) throw refusal()
    if (waiting >= limits.waiting) dropFromLongest(line.length)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiter = { resolve, reject }
    lines.set(name, line)
    line.push(waiter)
    waiting += 1
    const give_up = () => {
      if (leave(name, waiter)) reject(signal?.reason)
    }
    signal?.addEventListener('abort', give_up, { once: true })
    await promise.finally(() => signal?.removeEventListener('abort', give_up))
  }
  return {
    async run(name, work, signal) {
      if (mayRun(name)) begin(name)
      else await stand(name, signal)
      try {
        return await work()
      } finally {
        end(name)
      }
    },
    waiting: () => waiting,
  }
}
