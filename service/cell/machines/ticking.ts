import type { Clock } from '../../lib/clock.ts'

/** A busy computer may be as late as this; more time between two ticks has passed without anybody looking. */
const UNSEEN_MS = 20_000

/** One look at the time by something that ticks. */
export interface Tick {
  now: Date
  /** Everything counts as used then: what nobody saw cannot be held against anybody. */
  since: Date
}

/**
 * The time as something sees it that ticks every few seconds. Where the clock was set forward, or process or computer stood still,
 * everything counts as used anew: else all that was quiet would be found idle for as long, and ended at once.
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

/** @returns what is called every few seconds: it looks, unless a look is under way. */
export function ticking(clock: Clock, started_at: Date, look: (tick: Tick) => Promise<void>): () => Promise<void> {
  const time = watchTime(clock, started_at)
  const lookOnce = oneAtATime(look)
  return () => lookOnce(time())
}

/** @returns the same work: a call does nothing while an earlier one is under way. */
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

/** @returns what begins so much work at once, and the rest in the order in which it was asked for. */
export function turns(at_once_max: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = []
  let working = 0
  return async (work) => {
    if (working < at_once_max) working += 1
    else await new Promise<void>((resolve) => waiting.push(resolve)) // whoever ends hands its turn on
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) working -= 1
      else next()
    }
  }
}

/** The work took longer than its caller waits. It goes on, and its result is not used. */
export class TookTooLong extends Error {}

/**
 * @param late what it rejects with where the work takes longer, or what the work is.
 * @returns what the work comes to: a call that gets no answer must not keep its caller for ever.
 */
export async function bounded<T>(ms: number, late: string | (() => Error), work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const error = () => (typeof late === 'string' ? new TookTooLong(`${late}: no end within ${ms} ms`) : late())
  const timer = setTimeout(() => reject(error()), ms)
  try {
    return await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}

/** A function that sets a timer, and whether that timer runs. */
export type Timed<F> = F & { isDue(): boolean }

/** @returns what asks for the work: it is done so much later, once for all that ask meanwhile, and not after the signal. */
export function soon(ms: number, work: () => void, signal: AbortSignal): Timed<() => void> {
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
 * What is done again after it came to nothing, later each time, until it comes to something.
 * @returns what is told how it went.
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

/** Calls it until the signal fires. */
export function tickEvery(ms: number, tick: () => Promise<void>, failed: (error: unknown) => void, signal: AbortSignal): void {
  const timer = setInterval(() => {
    tick().catch(failed)
  }, ms)
  timer.unref()
  signal.addEventListener('abort', () => clearInterval(timer), { once: true })
}
