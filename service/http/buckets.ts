import type { Clock } from '../lib/clock.ts'

/** A token bucket for each name. What is held in memory is bounded: of more names than that, those unused the longest begin anew. */
export interface Buckets {
  /** @returns 0 when a token was there and is taken, else after how many seconds there will be one. */
  take(name: string): number
  /** Puts one back that was taken for nothing. */
  giveBack(name: string): void
}

export interface BucketSize {
  /** As many at once, and refilled evenly in `seconds`. */
  tokens: number
  seconds: number
  names_max: number
}

interface Bucket {
  tokens: number
  filled_ms: number
}

export function createBuckets({ tokens: most, seconds, names_max }: BucketSize, clock: Clock): Buckets {
  const per_ms = most / (seconds * 1000)
  const buckets = new Map<string, Bucket>() // in order of use, the longest unused first
  return {
    take(name) {
      const now_ms = clock.monotonic_ms()
      const { tokens, filled_ms } = buckets.get(name) ?? { tokens: most, filled_ms: now_ms }
      const since_ms = Math.max(0, now_ms - filled_ms) // a clock that a test sets back takes nothing away
      const filled = Math.min(most, tokens + since_ms * per_ms)
      const is_there = filled >= 1
      keep(name, { tokens: is_there ? filled - 1 : filled, filled_ms: now_ms })
      return is_there ? 0 : Math.ceil((1 - filled) / per_ms / 1000)
    },
    giveBack(name) {
      const bucket = buckets.get(name)
      if (bucket !== undefined) bucket.tokens = Math.min(most, bucket.tokens + 1)
    },
  }

  function keep(name: string, bucket: Bucket): void {
    buckets.delete(name)
    buckets.set(name, bucket)
    if (buckets.size <= names_max) return
    const [oldest] = buckets.keys()
    if (oldest !== undefined) buckets.delete(oldest)
  }
}
