import { cpus } from 'node:os'

/** Idle share of the computer's processors since the last call; 0 at the first call. */
export type SpareShare = () => number

export function openSpareShare(): SpareShare {
  let last = readTimes()
  return () => {
    const now = readTimes()
    const [idle_ms, all_ms] = [now.idle_ms - last.idle_ms, now.all_ms - last.all_ms]
    last = now
    return all_ms > 0 ? idle_ms / all_ms : 0
  }
}

function readTimes(): { idle_ms: number; all_ms: number } {
  const sum = { idle_ms: 0, all_ms: 0 }
  for (const { times } of cpus()) {
    sum.idle_ms += times.idle
    sum.all_ms += times.user + times.nice + times.sys + times.irq + times.idle
  }
  return sum
}
