import { readFileSync } from 'node:fs'
import { Agent } from 'node:http'
import path from 'node:path'
import pg from 'pg'
import { systemClock } from '../../service/lib/clock.ts'
import { createIds } from '../../service/lib/ids.ts'
import { call, createClient } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import { startChild } from './child.ts'
import { measure, timed } from './harness.ts'

const BATCH = 20
const ids = createIds(systemClock)

/** Row 9 of the performance table. */
export async function listRow(service: Service): Promise<void> {
  const key = await projectWithWorkspaces(service, 200)
  await using bare = await startChild('bare-server.ts', service.database_url())
  const { url } = bare.told as { url: string }
  const headers = { authorization: `Bearer ${key.api_key}` }
  const pageOf = async (url: string) => {
    const { body } = await call<{ data: unknown[] }>(url, { headers })
    if (body.data.length !== 50) throw new Error(`${url} answered ${body.data.length} workspaces`)
  }
  await measure(
    { row: 9, name: 'list', title: 'list 50 workspaces, rate', bar: { at_least: 0.6 } },
    {
      reference: batch(() => pageOf(`${url}/projects/${key.project_id}/workspaces`)),
      subject: batch(() => pageOf(`${service.base_url}/v1/workspaces`)),
    },
    { rate: true },
  )
}

/** Row 10 of the performance table. */
export async function tokenRow(service: Service): Promise<void> {
  const { id } = await firstRow(service, 'select id from api_keys order by id limit 1')
  await using gate = await startChild('gate-server.ts', service.database_url(), String(id), '1000')
  const { reference, subject, tokens } = gate.told as { reference: string; subject: string; tokens: string[] }
  let turn = 0
  const stat = async (url: string) => {
    const { status } = await call(url, { token: tokens[turn++ % tokens.length] ?? '' })
    if (status !== 200) throw new Error(`${url} answered ${status}`)
  }
  await measure(
    { row: 10, name: 'tokens', title: 'tool-token check, 1,000 tokens in turn, rate', bar: { at_least: 0.9 } },
    { reference: batch(() => stat(reference)), subject: batch(() => stat(subject)) },
    { rate: true, samples_max: 200 },
  )
}

const HELD = 500
const HELD_SECONDS = 20

export async function held500Row(service: Service): Promise<void> {
  const operations = await operationsWithoutEnd(service, HELD)
  const headers = { authorization: `Bearer ${service.api_key}`, prefer: `wait=${HELD_SECONDS}` }
  const client = createClient(service.base_url, service.api_key)
  for (let n = 0; n < 200; n++) await client.api('/v1/me') // warm up the code
  const memory_before = await service.memory_bytes('api')
  const cpu_before = cpuSeconds(service)
  const start_ms = performance.now()
  let memory_most = 0
  const sample = setInterval(() => void service.memory_bytes('api').then((bytes) => (memory_most = Math.max(memory_most, bytes))), 500)
  const agent = new Agent({ keepAlive: false, maxSockets: Infinity })
  const answers = await Promise.all(operations.map((id) => call(`${service.base_url}/v1/operations/${id}`, { headers, agent })))
  clearInterval(sample)
  const seconds = (performance.now() - start_ms) / 1000
  const wrong = answers.filter((answer) => answer.status !== 200 || answer.headers['preference-applied'] !== `wait=${HELD_SECONDS}`)
  if (wrong.length > 0) throw new Error(`${wrong.length} calls were not held to the end`)
  const core_share = Math.round(((cpuSeconds(service) - cpu_before) / seconds) * 10_000) / 10_000
  const memory_mib = Math.round(((memory_most - memory_before) / (1 << 20)) * 10) / 10
  const reached = core_share < 0.05 && memory_mib < 64
  console.log(`500 held calls: ${(core_share * 100).toFixed(2)} % of a core, +${memory_mib} MiB, bars < 5 % and < 64 MiB`)
  console.log(JSON.stringify({ name: 'held500', core_share, memory_mib, seconds: Math.round(seconds * 10) / 10, reached }))
}

function batch(request: () => Promise<unknown>) {
  return () =>
    timed(async () => {
      for (let n = 0; n < BATCH; n++) await request()
    })
}

async function projectWithWorkspaces(service: Service, count: number): Promise<{ api_key: string; project_id: string }> {
  const slug = `bench-${ids.next().slice(-12)}`
  const project_id = (await service.admin('project', 'create', slug, '--organization', 'default')).trim()
  const api_key = (
    await service.admin('key', 'create', '--organization', 'default', '--project', slug, '--tools', 'exec', '--quiet')
  ).trim()
  await withDatabase(service, async (db) => {
    const now = systemClock.now()
    for (let n = 0; n < count; n++) {
      await db.query(
        `insert into workspaces (id, organization_id, project_id, key, template_version_id, observed_state, desired_state, lifetime, mode,
           disk_layout, caps, inputs, ceiling_cpu_millis, ceiling_memory_mib, ceiling_disk_gib, active_at, created_at, updated_at)
         select $1, p.organization_id, p.id, $2, (select id from template_versions order by id limit 1), 'failed', 'running', 'persistent',
           'processful', 'layered', '{}', '{"CITY": "Utrecht"}', 2000, 1024, 10, $3, $3, $3 from projects p where p.id = $4`,
        [ids.next(), `${slug}-${n}`, now, project_id],
      )
    }
    await db.query('analyze workspaces')
  })
  return { api_key, project_id }
}

/** Operations of a cell that does not exist, so that they never end. */
async function operationsWithoutEnd(service: Service, count: number): Promise<string[]> {
  const made = Array.from({ length: count }, () => ids.next())
  const cell_id = ids.next()
  await withDatabase(service, async (db) => {
    const now = systemClock.now()
    await db.query(`insert into cells (id, name, endpoint, created_at) values ($1, $2, 'http://nowhere.bench', $3)`, [cell_id, `bench-${cell_id}`, now]) // prettier-ignore
    await db.query(
      `insert into operations (id, organization_id, project_id, kind, state, cell_id, created_at, updated_at)
       select made, p.organization_id, p.id, 'open', 'queued', $2, $3, $3
       from unnest($1::uuid[]) as made, api_keys k join projects p on p.id = k.project_id where k.name = 'first'`,
      [made, cell_id, now],
    )
  })
  return made
}

async function firstRow(service: Service, text: string): Promise<Record<string, unknown>> {
  return withDatabase(service, async (db) => {
    const [row] = (await db.query<Record<string, unknown>>(text)).rows
    if (row === undefined) throw new Error(`nothing: ${text}`)
    return row
  })
}

async function withDatabase<T>(service: Service, work: (db: pg.Client) => Promise<T>): Promise<T> {
  const db = new pg.Client({ connectionString: service.database_url() })
  await db.connect()
  try {
    return await work(db)
  } finally {
    await db.end()
  }
}

function cpuSeconds(service: Service): number {
  const { pid } = JSON.parse(readFileSync(path.join(service.run_dir, 'children', 'api.json'), 'utf8')) as { pid: number }
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100 // Linux reports hundredths of a second to every program
}
