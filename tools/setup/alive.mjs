import { readFileSync } from 'node:fs'

/** Whether the process of a mark runs; a pid alone does not name a process. */
export function isAlive({ pid, start_time }) {
  return start_time !== undefined && startTimeOf(pid) === start_time
}

/** Clock ticks since the computer started: with it a pid names one process. undefined for a process that has ended, a zombie too. */
export function startTimeOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? undefined : Number(fields[19])
  } catch {
    return undefined // no such process
  }
}
