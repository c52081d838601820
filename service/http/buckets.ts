import type { Clock } from '../lib/clock.ts'

/** Token buckets by name. Beyond `names_max` the least recently used bucket is removed, so its name starts again with a full bucket. */
export interface Buckets {
  /** @returns 0 if a token was taken, else the seconds until the next one */
  take(name: string): number
  giveBack(name: string): void
}

export interface BucketSize {
  /** The largest burst. An empty bucket is refilled evenly in `seconds`. */
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
  const buckets = new Map<string, Bucket>() // least recently used first
  return {
    take(name) {
      const now_ms = clock.monotonic_ms()
      const { tokens, filled_ms } = buckets.get(name) ?? { tokens: most, filled_ms: now_ms }
      const since_ms = Math.max(0, now_ms - filled_ms) // a test may set the clock back
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
