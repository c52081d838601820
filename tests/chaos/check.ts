import pg from 'pg'
import { until } from '../support/processes.ts'
import type { Service } from '../support/service.ts'
import type { History } from './history.ts'

const REST_MS = 90_000

/** While everything goes on: what must hold at every moment. */
export async function watch(service: Service, history: History, stopped: () => boolean): Promise<void> {
  while (!stopped()) {
    await new Promise((resolve) => setTimeout(resolve, 1000))
    const { machines } = await service.inventory().catch(() => ({ machines: [] })) // hostd may be dead just now
    const ids = machines.map(({ workspace_id }) => workspace_id)
    if (new Set(ids).size !== ids.length) history.violate('R3: a workspace has two machines', { machines })
    const twice = await query<{ workspace_id: string }>(
      service,
      `select workspace_id from operations where completed_at is null and state = 'running' group by 1 having count(*) > 1`,
    ).catch(() => [])
    if (twice.length > 0) history.violate('I1: two operations of one workspace run', { twice })
  }
}

/** When nobody asks for anything any more: everything comes to rest, and rows, host and files agree. */
export async function checkRest(service: Service, history: History): Promise<void> {
  await rests(history, 'I2: operations do not end', async () => {
    const [row] = await query<{ count: number }>(service, 'select count(*)::integer as count from operations where completed_at is null')
    return row?.count === 0 ? null : row
  })
  await rests(history, 'I6, I7: the doctor finds something', async () => {
    const findings = await doctor(service)
    const bad = findings.filter(
      ({ check, level }) => level !== 'ok' && check !== 'data_disk' && check !== 'file_systems' && check !== 'ready_ahead',
    )
    return bad.length === 0 ? null : bad
  })
}

async function rests(history: History, what: string, ask: () => Promise<unknown>): Promise<void> {
  let last: unknown = null
  await until(what, REST_MS, async () => {
    last = await ask().catch((error: unknown) => String(error))
    if (last !== null) await new Promise((resolve) => setTimeout(resolve, 1000))
    return last === null
  }).catch(() => history.violate(what, { last }))
}

export async function doctor(service: Service): Promise<{ check: string; level: string; text: string }[]> {
  const text = await service.admin('doctor', '--json').catch((error: unknown) => (error as { stdout: string }).stdout)
  return (JSON.parse(text) as { findings: { check: string; level: string; text: string }[] }).findings
}

async function query<T extends pg.QueryResultRow>(service: Service, text: string): Promise<T[]> {
  const db = new pg.Client({ connectionString: service.database_url(), connectionTimeoutMillis: 5000 })
  db.on('error', () => undefined) // the query meets it
  try {
    await db.connect()
    return (await db.query<T>(text)).rows
  } finally {
    await db.end().catch(() => undefined) // the server may be gone
  }
}
