import { randomBytes } from 'node:crypto'
import { v7 } from 'uuid'
import type { Clock } from './clock.ts'

/** Creates ascending UUIDv7, even if the clock is set back, so that pages of a list keep their order. */
export interface Ids {
  next(): string
  /** Later ids of this process must be greater than this one. */
  seen(id: string): void
}

export function createIds(clock: Clock): Ids {
  const random = randomness()
  let floor_ms = 0
  let sequence = 0
  return {
    next() {
      const ms = clock.now().getTime()
      sequence = ms > floor_ms ? Math.floor(Math.random() * 0x1000) : sequence + 1
      floor_ms = Math.max(ms, floor_ms)
      return v7({ msecs: floor_ms, seq: sequence, random: random() })
    },
    seen(id) {
      const ms = Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)
      if (Number.isFinite(ms) && ms > floor_ms) {
        floor_ms = ms
        sequence = 0xfff
      }
    },
  }
}

const RANDOM_BYTES = 16
const DRAWN_AT_ONCE = 256

/** Reads random bytes in batches, so that one system call is enough for many ids. */
function randomness(): () => Uint8Array {
  let drawn: Uint8Array = new Uint8Array(0)
  let used = 0
  return () => {
    if (used === drawn.length) {
      drawn = randomBytes(RANDOM_BYTES * DRAWN_AT_ONCE)
      used = 0
    }
    used += RANDOM_BYTES
    return drawn.subarray(used - RANDOM_BYTES, used)
  }
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** Accepts the canonical lower-case form only (App, "Conventions"). */
export function isUuid(text: string): boolean {
  return UUID.test(text)
}
