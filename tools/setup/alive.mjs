import { readFileSync } from 'node:fs'

/** The kernel reuses pids. */
export function isAlive({ pid, start_time }) {
  return start_time !== undefined && startTimeOf(pid) === start_time
}

/** In clock ticks since boot. undefined: ended or a zombie. */
export function startTimeOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? undefined : Number(fields[19])
  } catch {
    return undefined // no such process
  }
}
