import { readFileSync } from 'node:fs'
import { startTimeOf } from '../../tools/setup/alive.mjs'
import { patiently, slowness } from './patience.ts'

export { startTimeOf }

/** A zombie counts as ended. */
export function isRunning(pid: number): boolean {
  return startTimeOf(pid) !== undefined
}

export function residentBytes(pid: number): number {
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kib) * 1024
}

/** Polls every 20 ms, and throws errors of `condition`. The limit is for an unloaded computer. */
export async function until(what: string, limit_ms: number, condition: () => boolean | Promise<boolean>): Promise<void> {
  for (const goesOn = patiently(limit_ms); !(await condition()); await new Promise((resolve) => setTimeout(resolve, 20))) {
    if (!goesOn()) throw new Error(`${what}: not within ${limit_ms} ms of a quiet computer (it is ${slowness().toFixed(1)} times as slow)`)
  }
}
