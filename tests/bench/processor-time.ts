import { readFileSync } from 'node:fs'
import type { ChildName, Service } from '../support/service.ts'

/** Linux reports hundredths of a second. */
const TICK_MS = 10
const PROCESSES = ['api', 'cell', 'hostd'] as const
const GROUPS = ['machines', 'commands', 'service'] as const

/** CPU milliseconds so far (cgroup v1). */
export function createProcessorTime(service: Service): () => Record<string, number> {
  return () => ({
    ...Object.fromEntries(PROCESSES.map((child) => [child, ofProcess(service, child)])),
    ...Object.fromEntries(GROUPS.map((group) => [group, ofGroup(`berth-${service.instance}/${group}`)])),
    computer: ofComputer(),
  })
}

function ofProcess(service: Service, child: ChildName): number {
  const stat = readFileSync(`/proc/${service.pid(child)}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS
}

function ofGroup(group: string): number {
  return Number(readFileSync(`/sys/fs/cgroup/cpuacct/${group}/cpuacct.usage`, 'utf8')) / 1e6
}

function ofComputer(): number {
  const [, user, nice, system, , , irq, softirq] = (readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '').split(/ +/).map(Number)
  return ((user ?? 0) + (nice ?? 0) + (system ?? 0) + (irq ?? 0) + (softirq ?? 0)) * TICK_MS
}
