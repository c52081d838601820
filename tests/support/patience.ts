// Limits are written for an unloaded computer with two processors. A slower or busier one gets proportionally more time.
import { readFileSync } from 'node:fs'

/** Names the file of the factor, which the runner rewrites every few seconds. */
export const SLOWNESS_VARIABLE = 'BERTH_TEST_SLOWNESS_FILE'
const LOOK_MS = 1000

let seen = { at_ms: -LOOK_MS, slowness: 1 }

/** Factor of limits, at least 1. */
export function slowness(): number {
  const file = process.env[SLOWNESS_VARIABLE]
  if (file === undefined) return 1
  if (performance.now() - seen.at_ms >= LOOK_MS) seen = { at_ms: performance.now(), slowness: read(file) ?? seen.slowness }
  return seen.slowness
}

export function patience(quiet_ms: number): number {
  return Math.ceil(quiet_ms * slowness())
}

/** @returns whether time is left. Time counts less while the computer is slow. */
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
    return undefined // the file is being written, or the runner has ended
  }
}
