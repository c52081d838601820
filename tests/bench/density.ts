import type { Client, OpenedWorkspace } from '../support/client.ts'
import { until } from '../support/processes.ts'
import type { Service } from '../support/service.ts'
import { memoryMib, treeMemoryMib } from './process-memory.ts'
import { CROWDED_SETTINGS, SMALL_CAPS } from './settings.ts'
import { withService } from './with-service.ts'

const PARKED = 60
const BUSY = 6
const SUSPENDED = 500
const AT_ONCE = 4
const BUSY_MS = 30_000
const LOOK_MS = 1000
const BAR_MIB = 400
const PROCESSES = ['supervisor', 'postgres', 'hostd', 'api', 'cell'] as const

/** Shared pages count once. `density:100` uses 100 suspended workspaces. */
export async function densityRow(asked?: string): Promise<void> {
  const count = Number(asked ?? SUSPENDED)
  await withService({ ...CROWDED_SETTINGS, pool_image_gib: 24, freeze_after_seconds: 5 }, async (service, client) => {
    await many(count, async (n) => {
      const { id } = await client.open(`bench-suspended-${n}`, SMALL_CAPS)
      const { state, error } = await client.operate(`/v1/workspaces/${id}/suspend`)
      if (state !== 'succeeded') throw new Error(`The suspend ${state}: ${JSON.stringify(error)}`)
    })
    await many(PARKED, (n) => client.open(`bench-parked-${n}`, SMALL_CAPS))
    const busy: OpenedWorkspace[] = []
    await many(BUSY, async (n) => void busy.push(await client.open(`bench-busy-${n}`, SMALL_CAPS)))
    await until('the others are parked', 120_000, async () => {
      const { machines } = await service.inventory()
      return machines.filter(({ state }) => state === 'frozen').length >= PARKED
    })
    print(count, await measured(service, client, busy))
  })
}

async function many(count: number, work: (n: number) => Promise<unknown>): Promise<void> {
  let next = 0
  const worker = async () => {
    while (next < count) await work(next++)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}

type Memory = Record<(typeof PROCESSES)[number], number>

async function measured(service: Service, client: Client, busy: OpenedWorkspace[]): Promise<Memory> {
  const end_ms = performance.now() + BUSY_MS
  const use = async (workspace: OpenedWorkspace) => {
    while (performance.now() < end_ms) {
      await client.run(workspace, ['bash', '-c', 'head -c 1000000 /dev/urandom | tee file | sha256sum'])
      const { status } = await client.tool(workspace, '/files?path=/home/user/file')
      if (status !== 200) throw new Error(`The read answered ${status}`)
    }
  }
  const most: Memory = { supervisor: 0, postgres: 0, hostd: 0, api: 0, cell: 0 }
  const look = async () => {
    while (performance.now() < end_ms) {
      for (const name of PROCESSES) most[name] = Math.max(most[name], await memoryOf(service, name))
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
  }
  await Promise.all([...busy.map(use), look()])
  return most
}

/** PostgreSQL's child processes are included. Those of hostd are machines, which do not count. */
async function memoryOf(service: Service, name: (typeof PROCESSES)[number]): Promise<number> {
  return name === 'postgres' ? treeMemoryMib([service.pid(name)]) : memoryMib(service.pid(name))
}

function print(suspended: number, memory: Memory): void {
  const round = (mib: number) => Math.round(mib * 10) / 10
  const sum_mib = round(Object.values(memory).reduce((sum, mib) => sum + mib, 0))
  const each = Object.fromEntries(Object.entries(memory).map(([name, mib]) => [name, round(mib)]))
  const text = Object.entries(each).map(([name, mib]) => `${name} ${mib}`).join(', ') // prettier-ignore
  console.log(`${PARKED} parked, ${BUSY} busy, ${suspended} suspended: ${sum_mib} MiB resident (${text}), bar ≤ ${BAR_MIB} MiB`)
  console.log(JSON.stringify({ name: 'density', suspended, mib: each, sum_mib, reached: sum_mib <= BAR_MIB }))
}
