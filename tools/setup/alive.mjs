import { readFileSync } from 'node:fs'

/** Compares the start time, because the kernel reuses pids. */
export function isAlive({ pid, start_time }) {
  return start_time !== undefined && startTimeOf(pid) === start_time
}

/** Start time in clock ticks since boot. undefined: the process has ended or is a zombie. */
export function startTimeOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? undefined : Number(fields[19])
  } catch {
    return undefined // there is no such process
  }
}
