import type { Clock } from './clock.ts'

/** A longer time between two ticks counts as a gap. An overloaded computer may delay a tick, but not by this much. */
const UNSEEN_MS = 20_000

export interface Tick {
  now: Date
  /** Every workspace counts as used at this time, because earlier use was not observed. */
  since: Date
}

/**
 * Finds gaps in the process's own observation. After a jump forward, or a standstill of process or computer, everything counts as used from
 * this time on.
 * Otherwise every unobserved workspace would seem idle and end at once.
 */
function watchTime(clock: Clock, started_at: Date): () => Tick {
  let since = started_at
  let last = clock.now()
  return () => {
    const now = clock.now()
    if (now.getTime() - last.getTime() > UNSEEN_MS) since = now
    last = now
    return { now, since }
  }
}

/** @returns a tick function. It does nothing while an earlier tick is under way. */
export function gapAwarePoller(clock: Clock, started_at: Date, look: (tick: Tick) => Promise<void>): () => Promise<void> {
  const time = watchTime(clock, started_at)
  const lookOnce = oneAtATime(look)
  return () => lookOnce(time())
}

/** Wraps work so that a call does nothing while an earlier one is under way. No sample is lost, because the next tick takes it. */
export function oneAtATime<A extends unknown[]>(work: (...given: A) => Promise<void>): (...given: A) => Promise<void> {
  let working = false
  return async (...given) => {
    if (working) return
    working = true
    try {
      await work(...given)
    } finally {
      working = false
    }
  }
}

/** The work took longer than its caller waits. The work continues, and its result is ignored. */
export class TimedOut extends Error {}

/**
 * Limits a wait, so that a missing answer does not block the caller for ever.
 * @param late the error, or a description of the work.
 */
export async function withTimeout<T>(ms: number, late: string | (() => Error), work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const error = () => (typeof late === 'string' ? new TimedOut(`${late}: no end within ${ms} ms`) : late())
  const timer = setTimeout(() => reject(error()), ms)
  try {
    return await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}

export type Timed<F> = F & { isDue(): boolean }

/** @returns a trigger. The work runs once, this long after the first trigger, and never after the signal. */
export function debounced(ms: number, work: () => void, signal: AbortSignal): Timed<() => void> {
  let timer: NodeJS.Timeout | undefined
  signal.addEventListener('abort', () => clearTimeout(timer), { once: true })
  const ask = () => {
    if (signal.aborted) return
    timer ??= setTimeout(() => {
      timer = undefined
      work()
    }, ms).unref()
  }
  return Object.assign(ask, { isDue: () => timer !== undefined })
}

/**
 * Repeats failed work, after growing pauses, until it succeeds.
 * @returns a function that must be called with each result.
 */
export function retrying(
  { first_ms, most_ms }: { first_ms: number; most_ms: number },
  work: () => void,
  signal: AbortSignal,
): Timed<(done: boolean) => void> {
  let next_ms = first_ms
  let timer: NodeJS.Timeout | undefined
  signal.addEventListener('abort', () => clearTimeout(timer), { once: true })
  const tell = (done: boolean) => {
    if (done) {
      next_ms = first_ms
      clearTimeout(timer)
      timer = undefined
      return
    }
    if (signal.aborted || timer !== undefined) return
    timer = setTimeout(() => {
      timer = undefined
      work()
    }, next_ms).unref()
    next_ms = Math.min(next_ms * 2, most_ms)
  }
  return Object.assign(tell, { isDue: () => timer !== undefined })
}

export function tickEvery(ms: number, tick: () => Promise<void>, failed: (error: unknown) => void, signal: AbortSignal): void {
  const timer = setInterval(() => {
    tick().catch(failed)
  }, ms)
  timer.unref()
  signal.addEventListener('abort', () => clearInterval(timer), { once: true })
}

/** Calls a function at an interval and on demand. */
export interface Poller {
  /** Starts a pass now, or another one after a pass in progress. */
  poke(): void
  /** Resolves when no pass runs. No pass begins afterwards. */
  close(): Promise<void>
}

interface PollerOptions {
  every_ms: number
  /** One pass. `stopped` returns whether the pass should end early. */
  look(stopped: () => boolean): Promise<unknown>
  failed(error: unknown): void
}

/**
 * Polls at an interval, one pass at a time, until it is closed. A failed pass is reported and does not stop the poller.
 * A poke during a pass causes another pass, unlike a call of `oneAtATime`: the current pass may have read before the announced row was
 * written.
 */
export function startPoller({ every_ms, look, failed }: PollerOptions): Poller {
  let closed = false
  let working: Promise<unknown> | null = null
  let again = false
  const poke = () => {
    if (closed) return
    again = working !== null
    working ??= look(() => closed)
      .catch(failed)
      .finally(() => {
        working = null
        if (again) poke()
      })
  }
  const timer = setInterval(poke, every_ms)
  timer.unref()
  return {
    poke,
    async close() {
      closed = true
      clearInterval(timer)
      await working
    },
  }
}
