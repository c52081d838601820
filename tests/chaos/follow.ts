import { setTimeout } from 'node:timers/promises'
import { until } from '../support/processes.ts'
import type { Service } from '../support/service.ts'
import { isStopped, pidOf } from './arm.ts'
import type { Mode, Owner } from './points.ts'
import { saysReady, startSuccessor } from './successor.ts'

export interface Following {
  stop_ms: number
  ended(): boolean
  tookOver(address: string): void
}

/** An operation ends within 15 s of a recovery, but its successor must start first, and the computer may be slow. */
const TAKEN_OVER_MS = 90_000
const NOTICED_MS = 60_000

export async function follow(service: Service, owner: Owner, mode: Mode, following: Following): Promise<void> {
  if (mode === 'stop') await outlast(service, owner, following)
  if (mode === 'kill_all')
    for (const child of ['supervisor', 'cell', 'api', 'hostd', 'postgres'] as const) await service.kill9(child).catch(() => undefined) // the owner is dead already
}

/**
 * A zombie continues after another process has done its work. A stop alone creates none: a stopped cell keeps its lock
 * (docs/decisions/cell-and-host.md), an api holds nothing, and there is one hostd. So each case starts a real successor.
 */
async function outlast(service: Service, owner: Owner, following: Following): Promise<void> {
  const pid = pidOf(service, owner)
  await until(`${owner} stands still`, NOTICED_MS, () => isStopped(pid))
  const stood = setTimeout(following.stop_ms)
  try {
    if (owner === 'hostd') await replaceCell(service)
    else await succeed(service, owner, following, pid, stood)
    await stood
  } finally {
    process.kill(pid, 'SIGCONT')
  }
}

/** Replaces the cell that called hostd. The next one calls with a higher fencing token once hostd continues. */
async function replaceCell(service: Service): Promise<void> {
  const before = pidOf(service, 'cell')
  await service.kill9('cell')
  await until('another cell is started', TAKEN_OVER_MS, () => pidOf(service, 'cell') !== before)
}

async function succeed(service: Service, owner: 'api' | 'cell', following: Following, pid: number, stood: Promise<void>): Promise<void> {
  if (owner === 'cell') await loseLock(service)
  const successor = await startSuccessor(service, owner)
  try {
    following.tookOver(successor.address)
    await until('what took over ends what was asked for', TAKEN_OVER_MS, following.ended)
    await stood
    process.kill(pid, 'SIGCONT')
    if (owner === 'cell') await until('the zombie sees that it is one', NOTICED_MS, async () => !(await saysReady(service, owner)))
  } finally {
    await successor.stop()
  }
}

/** As after a long partition, the server ends only the connection that holds the lock. */
async function loseLock(service: Service): Promise<void> {
  const ended = await service.query(
    `select pg_terminate_backend(pid) from pg_locks join pg_stat_activity using (pid)
     where locktype = 'advisory' and granted and application_name = 'berth-cell'`,
  )
  if (ended.length !== 1) throw new Error(`${ended.length} connections held the cell's lock`)
}
