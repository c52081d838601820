import type { Client, OpenedWorkspace } from '../support/client.ts'
import { until } from '../support/processes.ts'
import type { Service } from '../support/service.ts'
import { printSeconds, timed } from './harness.ts'
import { withService } from './with-service.ts'

// More workspaces than fit, so capacity must be released on demand.

const HUNDRED = 100
const ROOM_MIB = 8192
const ROUND_MS = 60_000
const CALL_SECONDS_MAX = 0.6

const IDLE = 8
/** Includes the headroom, which is charged for the engine. */
const MACHINE_MIB = 1024 + 192
const NINTH_SECONDS_MAX = 0.5
const NINTHS = 9

const BURST = 20
const BURST_SECONDS_MAX = 5

const PARK_MS = 120_000
/** The disks are thin and almost empty. Parking uses the default times. */
const SETTINGS = { disk_overcommit: 1000, freeze_after_seconds: 5, hibernate_after_seconds: 600 }

const ROWS: Record<string, (minutes: number) => Promise<void>> = { hundred: hundredRow, ninth: ninthRow, burst: burstRow }

export async function roomRows(asked?: string): Promise<void> {
  const [name, minutes] = asked?.split('/') ?? []
  if (name !== undefined && !Object.hasOwn(ROWS, name))
    throw new Error(`There is no row ${name}: choose of ${Object.keys(ROWS).join(', ')}`)
  for (const [each, row] of Object.entries(ROWS)) if (name === undefined || name === each) await row(Number(minutes ?? 2))
}

async function hundredRow(minutes: number): Promise<void> {
  await withService({ ...SETTINGS, capacity_memory_mib: ROOM_MIB }, async (_, client) => {
    const workspaces = await many(HUNDRED, (n) => client.open(`bench-room-${n}`))
    const calls: number[] = []
    const refused: string[] = []
    await Promise.all(
      workspaces.map(async (workspace, n) => {
        await sleep((n * ROUND_MS) / HUNDRED)
        for (let round = 0; round < minutes; round += 1) {
          const next = sleep(ROUND_MS)
          try {
            calls.push(await timed(() => runTrue(client, workspace)))
          } catch (error) {
            refused.push(String(error))
          }
          if (round < minutes - 1) await next
        }
      }),
    )
    printHundred(minutes, calls, refused)
  })
}

async function runTrue(client: Client, workspace: OpenedWorkspace): Promise<void> {
  const { exit } = await client.run(workspace, ['/bin/true'])
  if (exit.exit_code !== 0) throw new Error(`The command ended with ${JSON.stringify(exit)}`)
}

function printHundred(minutes: number, calls: number[], refused: string[]): void {
  const seconds = calls.map((ms) => Math.round(ms) / 1000).sort((a, b) => a - b)
  const at = (part: number) => seconds[Math.min(Math.floor(seconds.length * part), seconds.length - 1)] ?? Number.NaN
  const [p50, p95, worst] = [at(0.5), at(0.95), at(1)]
  const reached = refused.length === 0 && p95 <= CALL_SECONDS_MAX
  console.log(
    `${HUNDRED} workspaces with ${ROOM_MIB} MiB of room, each called once a minute for ${minutes} minutes: ` +
      `p95 ${p95} s, median ${p50}, slowest ${worst}, ${refused.length} of ${calls.length + refused.length} refused; bar: p95 ≤ ${CALL_SECONDS_MAX} s, none refused`,
  )
  for (const why of new Set(refused)) console.log(`refused: ${why}`)
  console.log(JSON.stringify({ name: 'room-hundred', minutes, p50, p95, worst, calls: calls.length, refused: refused.length, reached }))
}

async function ninthRow(): Promise<void> {
  await withService({ ...SETTINGS, capacity_memory_mib: IDLE * MACHINE_MIB, freeze_after_seconds: 1 }, async (service, client) => {
    await many(IDLE, (n) => client.open(`bench-idle-${n}`))
    const samples: number[] = []
    for (let n = 0; n <= NINTHS; n += 1) {
      await until('eight are idle', PARK_MS, async () => (await frozen(service)) === IDLE)
      await service.slots_ready()
      const ms = await timed(() => client.open(`bench-ninth-${n}`))
      if (n > 0) samples.push(ms) // the first run of a new service compiles its code
    }
    printSeconds('room-ninth', `open of a ninth default workspace beside ${IDLE} idle ones`, samples, NINTH_SECONDS_MAX)
  })
}

async function frozen(service: Service): Promise<number> {
  return (await service.inventory()).machines.filter(({ state }) => state === 'frozen').length
}

async function burstRow(): Promise<void> {
  await withService(SETTINGS, async (service, client) => {
    await client.open('bench-warm')
    await service.slots_ready()
    const ms = await timed(() => Promise.all(Array.from({ length: BURST }, (_, n) => client.open(`bench-burst-${n}`))))
    const { machines } = await service.inventory()
    console.log(`${machines.length} machines for ${BURST + 1} running workspaces`)
    printSeconds('room-burst', `${BURST} opens at once, until all run`, [ms], BURST_SECONDS_MAX)
  })
}

async function many<T>(count: number, work: (n: number) => Promise<T>): Promise<T[]> {
  const made: T[] = []
  let next = 0
  const worker = async () => {
    for (let n = next++; n < count; n = next++) made[n] = await work(n)
  }
  await Promise.all(Array.from({ length: 4 }, worker))
  return made
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
