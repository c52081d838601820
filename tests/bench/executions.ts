import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Execution } from '../../contract/schemas/cell/execution.ts'
import type { Client, OpenedWorkspace } from '../support/client.ts'
import { entryOf, tarOf } from '../support/tars.ts'
import type { Service } from '../support/service.ts'
import { measure, timed } from './harness.ts'
import { withRaw } from './machines.ts'
import { createProcessorTime } from './processor-time.ts'
import { CROWDED_SETTINGS } from './settings.ts'
import { withService } from './with-service.ts'

const FEW = 10
const SAME = 1000
const MANY = 100_000
const WORKSPACES = 10
const A_SECOND = 20
const SECONDS = 60
const BODY = { mode: 'file_first', caps: { memory_mib: 512, disk_gib: 1 } }

/** Row 19 of the performance table. */
export async function executionRows(only?: string): Promise<void> {
  const rows = { same: sameRow, many: manyRow, rate: rateRow, cost: costRow }
  await withService({ ...CROWDED_SETTINGS }, async (service, client) => {
    for (const [name, row] of Object.entries(rows)) if (only === undefined || only === name) await row(service, client)
  })
}

async function sameRow(service: Service, client: Client): Promise<void> {
  const workspace = await filled(client, 'same', SAME)
  await withRaw(service, async (raw) => {
    const bundle = raw.bundle(['/bin/true'])
    for (const name of namesOf(SAME)) {
      const file = path.join(bundle, 'root', 'home', 'user', name)
      mkdirSync(path.dirname(file), { recursive: true })
      writeFileSync(file, `content of ${name}`)
    }
    let count = 0
    await measure(
      { row: 19, name: 'execution', title: `execution of /bin/true on ${SAME} files`, bar: { at_most: 0.6 } },
      {
        reference: () => timed(() => raw.runsc('run', '--bundle', bundle, `bench-execution-${count++}`)),
        subject: executing(service, client, workspace),
      },
      { samples_max: 5, warm_ups: 30 },
    )
  })
}

async function manyRow(service: Service, client: Client): Promise<void> {
  const few = await filled(client, 'few', FEW)
  const many = await filled(client, 'many', MANY)
  await measure(
    { row: 19, name: 'execution-many', title: `the same on ${MANY} files beside one on ${FEW}`, bar: { at_most: 1.5 } },
    { reference: executing(service, client, few), subject: executing(service, client, many) },
    { samples_max: 5, warm_ups: 10 },
  )
}

async function rateRow(_service: Service, client: Client): Promise<void> {
  const all = await Promise.all(Array.from({ length: WORKSPACES }, (_, i) => filled(client, `rate-${i}`, FEW)))
  const period_ms = (WORKSPACES / A_SECOND) * 1000
  const took: number[] = []
  let refused = 0
  const begun = performance.now()
  const end = begun + SECONDS * 1000
  const driven = all.map(async (workspace, i) => {
    let next = begun + (i * period_ms) / WORKSPACES
    while (next < end) {
      await setTimeout(Math.max(0, next - performance.now()))
      next += period_ms
      took.push(await timed(() => execute(client, workspace).catch(() => (refused += 1))))
    }
  })
  await Promise.all(driven)
  const seconds = (performance.now() - begun) / 1000
  const at = (share: number) => Math.round(took.toSorted((a, b) => a - b)[Math.floor(took.length * share)] ?? Number.NaN)
  const rate = Math.round((took.length / seconds) * 10) / 10
  console.log(`19 executions of /bin/true over ${WORKSPACES} workspaces: ${rate}/s for ${Math.round(seconds)} s, ${refused} refused; each ${at(0.5)} ms, p95 ${at(0.95)} ms, bar ${A_SECOND}/s, none refused`) // prettier-ignore
  const reached = refused === 0 && rate >= A_SECOND * 0.98
  console.log(JSON.stringify({ row: 19, name: 'execution-rate', rate, refused, seconds, median_ms: at(0.5), p95_ms: at(0.95), reached }))
}

const COSTED = 100

/** The cost includes the replacement of the warm sandbox. */
async function costRow(service: Service, client: Client): Promise<void> {
  const workspace = await filled(client, 'cost', SAME)
  for (let i = 0; i < COSTED / 2; i++) await execute(client, workspace) // warm up the code
  await service.slots_ready()
  const time = createProcessorTime(service)
  const before = time()
  const walls: number[] = []
  const steps: Record<string, number> = {}
  for (let i = 0; i < COSTED; i++) {
    const began = performance.now()
    const { timings } = await execute(client, workspace)
    walls.push(performance.now() - began)
    for (const [step, ms] of Object.entries(timings)) steps[step] = (steps[step] ?? 0) + ms
  }
  await service.slots_ready()
  const after = time()
  const each = (total: number) => Math.round((total / COSTED) * 10) / 10
  const cost = Object.fromEntries(Object.entries(after).map(([who, ms]) => [who, each(ms - (before[who] ?? 0))]))
  const by_step = Object.fromEntries(Object.entries(steps).map(([step, ms]) => [step, each(ms)]))
  const median_ms = Math.round(walls.toSorted((a, b) => a - b)[COSTED / 2] ?? Number.NaN)
  console.log(`19 an execution of /bin/true costs ${Object.entries(cost).map(([who, ms]) => `${who} ${ms}`).join(', ')} ms of a processor and takes ${median_ms} ms one after another`) // prettier-ignore
  console.log(JSON.stringify({ row: 19, name: 'execution-cost', cost, by_step, median_ms }))
}

function executing(service: Service, client: Client, workspace: OpenedWorkspace): () => Promise<number> {
  return async () => {
    await service.slots_ready()
    return timed(() => execute(client, workspace))
  }
}

let count = 0
async function execute(client: Client, workspace: OpenedWorkspace): Promise<Execution> {
  const json = { execution_id: `execution-${count++}`, argv: ['/bin/true'] }
  const { status, body } = await client.tool<Execution>(workspace, '/exec', { json })
  if (status !== 201 || body.state !== 'succeeded') throw new Error(`the gateway answered ${status}: ${JSON.stringify(body)}`)
  if (process.env['TIMINGS']) console.error(JSON.stringify(body.timings))
  return body
}

async function filled(client: Client, key: string, files: number): Promise<OpenedWorkspace> {
  const workspace = await client.open(`executions-${key}`, BODY)
  const names = namesOf(files)
  for (let from = 0; from < names.length; from += 50_000) {
    const bytes = tarOf(...names.slice(from, from + 50_000).map((name) => entryOf(name, `content of ${name}`)))
    const answer = await client.tool(workspace, '/files/tar?path=/home/user', { method: 'PUT', bytes })
    if (answer.status !== 200) throw new Error(`the gateway answered ${answer.status}: ${answer.bytes.toString()}`)
  }
  await execute(client, workspace) // creates the host's copy of the tree once
  return workspace
}

function namesOf(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `d${Math.floor(i / 10_000)}/e${Math.floor(i / 100)}/f${i}`)
}
