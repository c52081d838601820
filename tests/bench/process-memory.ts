import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'

const execute = promisify(execFile)

/** @returns the proportional set size (PSS) in MiB */
export function memoryMib(pid: number): number {
  return Number(/^Pss:\s+(\d+)/m.exec(rollup(pid))?.[1] ?? 0) / 1024
}

/** In MiB; shared pages count once. */
export async function treeMemoryMib(roots: number[]): Promise<number> {
  let mib = 0
  for (let pids = roots; pids.length > 0; pids = await childrenOf(pids)) {
    for (const pid of pids) mib += memoryMib(pid)
  }
  return mib
}

function rollup(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
  } catch {
    return '' // it has ended
  }
}

async function childrenOf(pids: number[]): Promise<number[]> {
  const { stdout } = await execute('ps', ['-o', 'pid=', '--ppid', pids.join(',')]).catch(() => ({ stdout: '' })) // exit code 1 means no children
  return stdout
    .split('\n')
    .map(Number)
    .filter((pid) => pid > 0)
}
