// Limits are written for a quiet computer with two processors; a slower or busy one gets proportionally more time.
import { readFileSync } from 'node:fs'

/** The runner rewrites the factor every few seconds. */
export const SLOWNESS_VARIABLE = 'BERTH_TEST_SLOWNESS_FILE'
const LOOK_MS = 1000

let seen = { at_ms: -LOOK_MS, slowness: 1 }

/** At least 1. */
export function slowness(): number {
  const file = process.env[SLOWNESS_VARIABLE]
  if (file === undefined) return 1
  if (performance.now() - seen.at_ms >= LOOK_MS) seen = { at_ms: performance.now(), slowness: read(file) ?? seen.slowness }
  return seen.slowness
}

export function patience(quiet_ms: number): number {
  return Math.ceil(quiet_ms * slowness())
}

/** @returns whether time is left; it counts less while the computer is slow */
export function patiently(quiet_ms: number): () => boolean {
  let left_ms = quiet_ms
  let last_ms = performance.now()
  return () => {
    const now_ms = performance.now()
    left_ms -= (now_ms - last_ms) / slowness()
    last_ms = now_ms
    return left_ms > 0
  }
}

function read(file: string): number | undefined {
  try {
    const number = Number(readFileSync(file, 'utf8'))
    return number >= 1 ? number : undefined
  } catch {
    return undefined // it is being written, or the runner has ended
  }
}
