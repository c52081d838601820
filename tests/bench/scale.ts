import pg from 'pg'
import { call, createClient } from '../support/client.ts'
import { startService, type Service } from '../support/service.ts'
import { BENCH_SETTINGS } from './settings.ts'
import { measure, timed } from './harness.ts'

// The two measured services differ only in their number of workspaces.

const FEW = 100
const MANY = 10_000
const BATCH = 20

export async function scaleRows(few: Service): Promise<void> {
  const many = await startService({ settings: BENCH_SETTINGS })
  try {
    await fill(few, FEW)
    await fill(many, MANY)
    await row('list-page-flat', `a list page of 50 among ${MANY} workspaces`, few, many, listPage)
    await row('list-filtered-flat', `a list page of 50, by state and key_prefix, among ${MANY} workspaces`, few, many, filteredPage)
    await row('get-flat', `GET workspace among ${MANY}`, few, many, getOne)
    await row('open-flat', `open of a new key to running among ${MANY}`, few, many, openNew)
  } finally {
    await many.stop()
  }
}

type Sample = (service: Service) => Promise<() => Promise<number>>

async function row(name: string, title: string, few: Service, many: Service, prepare: Sample): Promise<void> {
  const [reference, subject] = [await prepare(few), await prepare(many)]
  await measure({ row: 23, name, title, bar: { at_most: 1.2 } }, { reference, subject })
}

const requests = (service: Service, path: string) => {
  const headers = { authorization: `Bearer ${service.api_key}` }
  return timed(async () => {
    for (let n = 0; n < BATCH; n++) {
      const { status } = await call(`${service.base_url}${path}`, { headers })
      if (status !== 200) throw new Error(`${path} answered ${status}`)
    }
  })
}

const listPage: Sample = async (service) => () => requests(service, '/v1/workspaces?limit=50')
const filteredPage: Sample = async (service) => () => requests(service, '/v1/workspaces?limit=50&state=suspended&key_prefix=scale-')

const getOne: Sample = async (service) => {
  const client = createClient(service.base_url, service.api_key)
  const { body } = await client.api<{ data: { id: string }[] }>('/v1/workspaces?limit=1')
  return () => requests(service, `/v1/workspaces/${body.data[0]?.id ?? ''}`)
}

const openNew: Sample = async (service) => {
  const client = createClient(service.base_url, service.api_key)
  let count = 0
  return async () => {
    await service.slots_ready()
    const json = { key: `open-${count++}`, template: 'base' }
    let id = ''
    const took_ms = await timed(async () => {
      const { status, body } = await client.api<{ workspace: { id: string } }>('/v1/workspaces/open', {
        json,
        headers: { prefer: 'wait=20' },
      })
      if (status !== 200) throw new Error(`open answered ${status}`)
      id = body.workspace.id
    })
    await client.operate(`/v1/workspaces/${id}`, { method: 'DELETE' })
    return took_ms
  }
}

async function fill(service: Service, count: number): Promise<void> {
  const client = new pg.Client({ connectionString: service.database_url() })
  await client.connect()
  try {
    await client.query(WORKSPACES, [count])
    await client.query(KEYS)
    for (const kind of ['open', 'suspend']) await client.query(OPERATIONS, [kind])
    await client.query('analyze')
  } finally {
    await client.end()
  }
}

const WORKSPACES = `
  insert into workspaces (id, organization_id, project_id, key, template_version_id, observed_state, desired_state, lifetime, mode, disk_layout,
    ceiling_cpu_millis, ceiling_memory_mib, ceiling_disk_gib, cell_id, active_at, created_at, updated_at)
  select ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, p.organization_id, p.id, 'scale-' || n, v.id, 'suspended', 'suspended',
    'persistent', 'processful', 'layered', 1000, 512, 4, c.id, t.at, t.at, t.at
  from generate_series(1, $1::int) n, (select * from projects order by id limit 1) p,
    (select * from template_versions order by id limit 1) v, cells c, (select timestamptz '2024-06-01' as at) t`
const KEYS = `
  insert into workspace_keys (organization_id, project_id, key, workspace_id)
  select organization_id, project_id, key, id from workspaces where key like 'scale-%'`
const OPERATIONS = `
  insert into operations (id, organization_id, project_id, workspace_id, kind, state, result, created_at, updated_at, started_at, completed_at, cell_id)
  select gen_random_uuid(), organization_id, project_id, id, $1::text, 'succeeded', '{}', created_at, created_at, created_at, created_at, cell_id
  from workspaces where key like 'scale-%'`
