import { LIMITS } from '../../contract/limits.ts'
import type { Clock } from '../lib/clock.ts'
import { createBuckets } from './buckets.ts'
import { sourceOf } from './source.ts'

/**
 * Limits the log lines of refusals. The log holds some MiB, so an unauthenticated caller could otherwise replace all of it within seconds.
 */
export interface LogShare {
  /**
   * @param caller null: unauthenticated; the limit then applies to the address
   * @returns null if the line must be omitted; else the number of lines omitted since the last one
   */
  refusal(caller: string | null, address: string): number | null
  /** Limits log lines of errors by subject. @returns the same as `refusal` */
  error(about: string): number | null
}

const { strangers_per_minute, source_per_minute, caller_per_minute, errors_per_minute } = LIMITS.log
const NAMES_MAX = 10_000

export function createLogShare(clock: Clock): LogShare {
  const buckets = (tokens: number) => createBuckets({ tokens, seconds: 60, names_max: NAMES_MAX }, clock)
  const strangers = buckets(strangers_per_minute)
  const sources = buckets(source_per_minute)
  const callers = buckets(caller_per_minute)
  const errors = buckets(errors_per_minute)
  let left_out = 0
  const told = (may: boolean): number | null => {
    if (!may) {
      left_out += 1
      return null
    }
    const before = left_out
    left_out = 0
    return before
  }
  return {
    refusal(caller, address) {
      if (caller !== null) return told(callers.take(caller) === 0)
      return told(sources.take(sourceOf(address)) === 0 && strangers.take('all') === 0)
    },
    error: (about) => told(errors.take(about) === 0),
  }
}
