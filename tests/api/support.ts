import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import type { TemplateSettings } from '../../contract/schemas/template-settings.ts'
import type { Tool } from '../../contract/route.ts'
import type { AttachmentState, VolumeState } from '../../contract/states/volume.ts'
import { openSealingKey, type SealingKey } from '../../service/core/keys/ring/sealed-values.ts'
import { insertFirstSealingKey } from '../../service/core/secrets/store.ts'
import type { SignInLimits } from '../../service/api/access/auth/sign-in-bounds.ts'
import type { MailConfig } from '../../service/api/records/mail/transports.ts'
import { openApi, type Api, type ApiOptions } from '../../service/api/server.ts'
import type { Database } from '../../service/db/schema.ts'
import { systemClock, type Clock } from '../../service/lib/clock.ts'
import { createIds, type Ids } from '../../service/lib/ids.ts'
import { freshDatabase, type TestDatabase } from '../support/postgres.ts'
import { until } from '../support/processes.ts'
import { fakeCell, type FakeCell } from './fake-cell.ts'
import { moneySeeds } from './money-seeds.ts'
import { NO_BOUNDS, personSeeds } from './people-seeds.ts'

export interface TestClock extends Clock {
  ahead_ms: number
}

export interface Answer {
  status: number
  // Bodies have many shapes, each checked by the server against its schema.
  // oxlint-disable-next-line typescript/no-explicit-any
  body: any
  headers: Headers
}

export interface Tenant {
  organization_id: string
  project_id: string
  key: string
  key_row_id: string
}

export interface World extends AsyncDisposable {
  database: TestDatabase
  clock: TestClock
  ids: Ids
  base: string
  /** A second API on the same database. @returns its URL */
  second(): Promise<string>
  a: Tenant
  a2: Tenant
  b: Tenant
  cell_id: string
  keys_dir: string
  sealing_key: SealingKey
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
  post(path: string, body?: unknown, options?: CallOptions): Promise<Answer>
  get(path: string, options?: CallOptions): Promise<Answer>
  open(key: string, body?: object, options?: CallOptions): Promise<Answer>
  running(key: string, body?: object): Promise<string>
  cell: FakeCell
}

export interface CallOptions {
  as?: string | null
  body?: unknown
  headers?: Record<string, string>
  base?: string
  signal?: AbortSignal
}

export const SETTINGS: TemplateSettings = {
  env: { LANG: 'C.UTF-8' },
  inputs: { CITY: {}, COLOUR: { default: 'blue' } },
  defaults: { cpu_millis: 2000, memory_mib: 1024, disk_gib: 10 },
  ceiling: { cpu_millis: 4000, memory_mib: 8192, disk_gib: 50 },
}

type PerMinute = `${'edge_requests' | 'caller_requests' | 'wrong_credentials'}_per_minute`
type Bounds = PerMinute | 'kept_refusals_per_hour' | 'changes_per_day'
type Waits = 'delete_told_seconds' | 'revocation_held_seconds'
type Kinds = 'layered_opens' | 'file_first' | 'uploads_dir' | 'package_mirror' | 'stripe' | 'collects_payments' | 'reserve'

export interface WorldOptions extends Pick<ApiOptions, Bounds | Kinds | Waits | 'cors_origins'> {
  check?: boolean
  registration?: 'invitation' | 'open' | string[]
  /** Default: limits too high for tests to reach. */
  sign_in_limits?: SignInLimits
  /** By default, mail waits until a test sends it. */
  mail?: MailConfig
  /** Default: the deletion waits until a test runs it. */
  ends_organizations?: boolean
}

/** Two organizations in a real PostgreSQL with its real roles; SQL replaces the cell. */
export async function world({ check = true, ...given }: WorldOptions = {}): Promise<World> {
  const database = await freshDatabase()
  const keys_dir = mkdtempSync(join(tmpdir(), 'berth-api-test-'))
  const uploads_dir = join(keys_dir, 'uploads')
  mkdirSync(uploads_dir)
  const clock: TestClock = {
    ahead_ms: 0,
    now: () => new Date(Date.now() + clock.ahead_ms),
    monotonic_ms: () => systemClock.monotonic_ms() + clock.ahead_ms,
  }
  const ids = createIds(clock)
  const apis: Api[] = []
  const start = async () => {
    const api = await openApi({
      database: database.options('berth_api'),
      signing_keys_dir: keys_dir,
      base_url: 'http://api.test',
      ports_url: 'https://ports.test',
      clock,
      ids,
      logger: pino({ level: process.env['BERTH_TEST_LOG'] ?? 'silent' }),
      validate_answers: check,
      delete_told_seconds: 0.02,
      revocation_held_seconds: 0.02,
      registration: 'open',
      sign_in_limits: NO_BOUNDS,
      uploads_dir,
      ...given,
    })
    apis.push(api)
    return api.server.listen({ host: '127.0.0.1', port: 0 })
  }
  const seeds = seeder(database, clock, ids)
  const plan_id = await seeds.plan('unlimited')
  const a = await seeds.tenant('a', plan_id)
  const a2 = await seeds.project(a.organization_id, 'a2')
  const b = await seeds.tenant('b', plan_id)
  const cell_id = await seeds.cell('one')
  await seeds.template(null, 'base', SETTINGS)
  const sealing_key = await openSealingKey(join(keys_dir, 'cell'), 'first')
  const { key_id, public_jwk } = sealing_key
  await insertFirstSealingKey(database.cell, { key_id, public_jwk, created_at: clock.now() })
  const base = await start()

  const call: World['call'] = async (method, path, { as = a.key, body, headers = {}, base: other = base, signal } = {}) => {
    const response = await fetch(`${other}${path}`, {
      method,
      headers: {
        ...(as === null ? {} : { authorization: `Bearer ${as}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
    })
    const text = await response.text()
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text), headers: response.headers }
  }
  const cell = fakeCell(database, clock)
  const open: World['open'] = (key, body = {}, given = {}) =>
    call('POST', '/v1/workspaces/open', { ...given, body: { key, template: 'base', ...body } })
  return {
    database,
    clock,
    ids,
    base,
    second: start,
    a,
    a2,
    b,
    cell_id,
    keys_dir,
    sealing_key,
    call,
    post: (path, body, given) => call('POST', path, { ...given, ...(body === undefined ? {} : { body }) }),
    get: (path, given) => call('GET', path, given),
    open,
    async running(key, body = {}) {
      const opened = await open(key, body)
      if (opened.status !== 202) throw new Error(`open answered ${opened.status}: ${JSON.stringify(opened.body)}`)
      await cell.succeed(opened.body.operation.id)
      return opened.body.workspace.id
    },
    cell,
    async [Symbol.asyncDispose]() {
      await Promise.all(apis.map((api) => api.close()))
      await database[Symbol.asyncDispose]()
      rmSync(keys_dir, { recursive: true, force: true })
    },
  }
}

export function seeder({ superuser: db }: TestDatabase, clock: Clock, ids: Ids) {
  const created_at = clock.now()
  const seeds = {
    ...personSeeds(db, ids, created_at),
    ...moneySeeds(db, ids, created_at),
    async plan(
      slug: string,
      limits: {
        concurrent_workspaces?: number
        memory_mib?: number
        missing_limits?: string[]
        refuses_starts?: Database['plans']['refuses_starts']
      } = {},
    ) {
      const id = ids.next()
      await db
        .insertInto('plans')
        .values({
          id,
          slug,
          name: slug,
          concurrent_workspaces: null,
          cpu_millis: null,
          memory_mib: null,
          disk_gib: null,
          refuses_starts: null,
          created_at,
          ...limits,
        })
        .execute()
      return id
    },
    async tenant(slug: string, plan_id: string): Promise<Tenant> {
      const organization_id = ids.next()
      await db
        .insertInto('organizations')
        .values({ id: organization_id, name: slug, slug, plan_id, allowance_exhausted: null, created_at })
        .execute()
      return seeds.project(organization_id, slug)
    },
    async project(organization_id: string, slug: string): Promise<Tenant> {
      const project_id = ids.next()
      await db.insertInto('projects').values({ id: project_id, organization_id, name: slug, slug, created_at }).execute()
      return { organization_id, project_id, ...(await seeds.key(organization_id, project_id)) }
    },
    async key(organization_id: string, project_id: string, tools: Tool[] = ['exec', 'files'], expires_at: Date | null = null) {
      const id = ids.next()
      const key_id = randomBytes(8).toString('hex')
      const secret = randomBytes(32).toString('hex')
      const secret_sha256 = createHash('sha256').update(secret).digest()
      await db
        .insertInto('api_keys')
        .values({
          id,
          key_id,
          secret_sha256,
          organization_id,
          project_id,
          tool_permissions: tools,
          created_at,
          expires_at,
          revoked_at: null,
          tools_changed_at: null,
        })
        .execute()
      return { key: `sfk_${key_id}_${secret}`, key_row_id: id }
    },
    async cell(name: string) {
      const id = ids.next()
      await db
        .insertInto('cells')
        .values({
          id,
          name,
          endpoint: `http://${name}.cell.test`,
          engine: null,
          capacity_cpu_millis: null,
          capacity_memory_mib: null,
          capacity_disk_gib: null,
          created_at,
          seen_at: new Date(created_at.getTime() + 24 * 3600 * 1000), // counts as alive for the whole test, since no cell updates it
        })
        .execute()
      return id
    },
    async volume(
      { organization_id, project_id }: Pick<Tenant, 'organization_id' | 'project_id'>,
      cell_id: string | null,
      given: { id?: string; name?: string; state?: VolumeState; org_shared?: boolean } = {},
    ) {
      const { id = ids.next(), name = id, state = 'available', org_shared = false } = given
      const deleted_at = state === 'deleting' || state === 'deleted' ? created_at : null
      const times = { created_at, updated_at: created_at, deleted_at }
      await db
        .insertInto('volumes')
        .values({ id, organization_id, project_id, cell_id, name, quota_gib: 1, org_shared, state, ...times })
        .execute()
      return id
    },
    async attachment(
      workspace_id: string,
      volume_id: string,
      given: { mount_path?: string; state?: AttachmentState; place?: number; operation_id?: string } = {},
    ) {
      const { mount_path = `/home/user/${volume_id}`, state = 'attached', place = 0, operation_id = null } = given
      const times = { created_at, updated_at: created_at }
      await db
        .insertInto('volume_attachments')
        .values({ id: ids.next(), workspace_id, volume_id, mount_path, mode: 'read_write', place, state, operation_id, ...times })
        .execute()
    },
    async checkpoint(workspace_id: string, given: { id?: string; kind?: 'snapshot' | 'recovery'; label?: string; expires_at?: Date } = {}) {
      const { id = ids.next(), kind = 'snapshot', label = null, expires_at = null } = given
      const { cell_id } = await db.selectFrom('workspaces').select('cell_id').where('id', '=', workspace_id).executeTakeFirstOrThrow()
      if (cell_id === null) throw new Error('only a workspace with a cell has checkpoints')
      const resources = JSON.stringify({ cpu_millis: 1000, memory_mib: 512, disk_gib: 10 })
      await db
        .insertInto('checkpoints')
        .values({
          id,
          workspace_id,
          cell_id,
          operation_id: ids.next(),
          kind,
          label,
          epoch: 1,
          engine: 'test',
          size_bytes: 1,
          resources,
          created_at,
          expires_at,
        })
        .execute()
      return id
    },
    async template(organization_id: string | null, slug: string, settings: TemplateSettings, layered = true) {
      const id = ids.next()
      await db.insertInto('templates').values({ id, organization_id, slug, created_at, archived_at: null }).execute()
      const version = { id: ids.next(), template_id: id, version: 1, layered, layers: ['0'.repeat(64)] }
      await db
        .insertInto('template_versions')
        .values({ ...version, settings: JSON.stringify(settings), created_at, published_at: created_at, archived_at: null })
        .execute()
      return id
    },
  }
  return seeds
}

export async function keyKept(w: World, key: string): Promise<void> {
  const entries = w.database.superuser.selectFrom('idempotency_entries').select('key').where('key', '=', key)
  await until('the key is kept', 30_000, async () => (await entries.executeTakeFirst()) !== undefined)
}
