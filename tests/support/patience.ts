// Scales the time limits of tests. Limits are written for a quiet computer with two processors; a slower or busy computer gets
// proportionally more time.
import { readFileSync } from 'node:fs'

/** Names a file with the factor, which the runner rewrites every few seconds. */
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

/** Scales a limit in milliseconds for the current load. */
export function patience(quiet_ms: number): number {
  return Math.ceil(quiet_ms * slowness())
}

/** Returns a function that reports whether time is left. While the computer is slow, time counts proportionally less. */
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
