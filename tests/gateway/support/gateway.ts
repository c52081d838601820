import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey } from 'jose'
import pino, { type Logger } from 'pino'
import { AGENT_PROTOCOLS } from '../../../contract/internal/agent.ts'
import { TOOL_TOKEN_TYPE } from '../../../contract/tool-token.ts'
import type { DiskHost } from '../../../service/cell/admission/disk/reads.ts'
import type { CallPermits } from '../../../service/cell/admission/call-permits.ts'
import type { Signatures } from '../../../service/cell/admission/signatures.ts'
import { queryActivity } from '../../../service/cell/machines/activity-query.ts'
import type { Waking } from '../../../service/cell/machines/parking.ts'
import type { AgentDeadlines } from '../../../service/cell/host/agent-http.ts'
import type { BufferBudgets } from '../../../service/cell/host/buffer-budget.ts'
import { createAuthorities } from '../../../service/cell/policies/secrets/authorities.ts'
import { createExecutions, type Executions } from '../../../service/cell/filetree/executions/executions.ts'
import { createAgentLinks, openLink, type AgentLinks } from '../../../service/cell/host/agent.ts'
import { createFakeHost, type FakeHost } from '../../../service/cell/host/fake/host.ts'
import { createCapacityAllocator, type CapacityAllocator } from '../../../service/cell/capacity/allocator.ts'
import { createSecrets } from '../../../service/cell/policies/secrets/resolve.ts'
import { openSecretKeys } from '../../../service/cell/policies/secrets/keys.ts'
import { openSealingKey, type SealingKey } from '../../../service/core/keys/ring/sealed-values.ts'
import { startGateway, type Gateway } from '../../../service/cell/tool-server.ts'
import { cellChannels, openListener, type Listener } from '../../../service/db/listen.ts'
import type { Clock } from '../../../service/lib/clock.ts'
import { type DiskReserve, NO_RESERVE } from '../../../service/lib/disk-reserve.ts'
import { createIds } from '../../../service/lib/ids.ts'
import { createTrees, type Trees } from '../../../service/cell/filetree/trees/trees.ts'
import { freshDatabase, type TestDatabase } from '../../support/postgres.ts'
import { treesFolder } from '../../support/trees-folder.ts'
import { FakeAgent } from './fake-agent.ts'
import { FakeTable, inUse, runningEntry, type Life } from './fake-table.ts'

export const ISSUER = 'http://api.test'
export const ENDPOINT = 'http://cell.test'

/** Longer than a busy computer delays an agent of this process. */
const PATIENT = { connect_ms: 30_000, answer_ms: 30_000, longest_ms: 60_000, upload_ms: 60_000, idle_ms: 30_000 }
/** For an agent that does not answer. */
export const SOON = { connect_ms: 500, answer_ms: 700, longest_ms: 2000, upload_ms: 2000, idle_ms: 300 }

export class MovableClock implements Clock {
  ahead_ms = 0
  now(): Date {
    return new Date(Date.now() + this.ahead_ms)
  }
  monotonic_ms(): number {
    return performance.now() + this.ahead_ms
  }
}

/** A gateway over real HTTP with a real database, and one running workspace with a scripted agent. */
export interface Bench extends AsyncDisposable {
  gateway: Gateway
  database: TestDatabase
  listener: Listener
  table: FakeTable
  agent: FakeAgent
  agents: AgentLinks
  /** The scripted agent reads any disk, until a test replaces this. */
  disk_host: DiskHost
  /** Treats every machine as resident, until a test replaces this. */
  waking: Waking
  trees: Trees
  trees_folder: string
  machine_host: FakeHost
  room: CapacityAllocator
  executions: Executions
  clock: MovableClock
  life: Life
  workspace_id: string
  cell_id: string
  organization_id: string
  project_id: string
  api_key_id: string
  sealing_key: SealingKey
  logged: string[]
  signer: Signer
  token(claims?: Record<string, unknown>, header?: Record<string, unknown>): Promise<string>
  call(method: string, path: string, init?: RequestInit & { token?: string; json?: unknown }): Promise<Response>
}

export interface Signer {
  kid: string
  private_key: CryptoKey
}

export interface BenchOptions {
  signatures?: Signatures
  places?: CallPermits
  rooms?: BufferBudgets
  agent_deadlines?: AgentDeadlines
  reader_stalled_ms?: number
  cors_origins?: readonly string[]
  secret_resolutions_per_minute?: number
  trees_folder?: string
  reserve?: DiskReserve
}

export async function openBench(options: BenchOptions = {}): Promise<Bench> {
  const { secret_resolutions_per_minute, trees_folder = treesFolder(), reserve = NO_RESERVE, ...gateway_options } = options
  const database = await freshDatabase()
  const clock = new MovableClock()
  const ids = createIds(clock)
  const seeded = await seed(database, clock, () => ids.next())
  const listener = await openListener(database.options('berth_cell'), cellChannels(seeded.cell_id))
  const agent = await FakeAgent.start()
  const table = new FakeTable()
  const workspace_id = seeded.workspace_id
  const life = runningEntry(workspace_id, seeded.cell_id, agent.address)
  table.entries.set(workspace_id, life.entry)
  const logged: string[] = []
  const disk_host: DiskHost = { readDisk: () => Promise.resolve({ address: agent.address, agent_key: 'agent-key', epoch: 3 }) }
  const waking: Waking = { ready: ({ machine }) => machine, wake: () => Promise.resolve(), hint: () => 'resident' }
  const agents = createAgentLinks(options.agent_deadlines ?? PATIENT)
  const log = collectingLogger(logged)
  const keys_dir = mkdtempSync(join(tmpdir(), 'berth-bench-'))
  const opener = await openSecretKeys({ directory: keys_dir, command: '', db: database.cell, clock, log })
  const sealing_key = await openSealingKey(keys_dir, 'first')
  const trees = createTrees({ db: database.cell, clock, folder: trees_folder, reserve })
  const machine_host = createFakeHost({ clock })
  const room = createCapacityAllocator({ db: database.cell, cell_id: seeded.cell_id })
  const place = () => ({ address: agent.address, agent_key: 'agent-key', epoch: 3, agent_protocol: AGENT_PROTOCOLS.current })
  const executions = createExecutions({
    cell_id: seeded.cell_id,
    db: database.cell,
    clock,
    ids,
    host: machine_host,
    room,
    trees,
    log,
    openLink: () => openLink(place(), options.agent_deadlines ?? PATIENT),
  })
  const gateway = await startGateway({
    listen: { host: '127.0.0.1', port: 0 },
    table,
    host: { readDisk: (asked) => disk_host.readDisk(asked) },
    agents,
    secrets: createSecrets(
      { db: database.cell, opener, authorities: createAuthorities({ db: database.cell, opener, clock, ids }), clock, log },
      secret_resolutions_per_minute,
    ),
    waking: { ready: (entry) => waking.ready(entry), wake: (entry) => waking.wake(entry), hint: (entry) => waking.hint(entry) },
    showResidency: inUse,
    ask_activity: queryActivity,
    trees,
    executions,
    db: database.cell,
    listener,
    clock,
    ids,
    log,
    cell_id: seeded.cell_id,
    issuer: ISSUER,
    endpoint: ENDPOINT,
    validate_answers: true,
    drain_ms: 300,
    agent_deadlines: PATIENT,
    ...gateway_options,
  })
  const token = (claims: Record<string, unknown> = {}, header: Record<string, unknown> = {}) =>
    signToken(seeded.signer, { ...goodClaims(clock, seeded), ...claims }, header)
  return {
    gateway,
    database,
    listener,
    table,
    agent,
    agents,
    disk_host,
    waking,
    trees,
    trees_folder,
    machine_host,
    room,
    executions,
    clock,
    life,
    sealing_key,
    logged,
    token,
    ...seeded,
    async call(method, path, { token: given, json, ...init } = {}) {
      const headers = new Headers(init.headers)
      if (!headers.has('authorization')) headers.set('authorization', `Bearer ${given ?? (await token())}`)
      if (json !== undefined) headers.set('content-type', 'application/json')
      const body = json === undefined ? init.body : JSON.stringify(json)
      return fetch(`${gateway.address}/v1/workspaces/${workspace_id}${path}`, {
        method,
        ...init,
        headers,
        ...(body === undefined || body === null ? {} : { body }),
      })
    },
    async [Symbol.asyncDispose]() {
      await agent[Symbol.asyncDispose]()
      await gateway.close()
      agents.close()
      await listener.close()
      await database[Symbol.asyncDispose]()
      rmSync(keys_dir, { recursive: true })
    },
  }
}

interface Seeded {
  workspace_id: string
  cell_id: string
  api_key_id: string
  organization_id: string
  project_id: string
  signer: Signer
}

export function goodClaims(clock: Clock, seeded: Pick<Seeded, 'api_key_id' | 'workspace_id'> & Partial<Seeded>): Record<string, unknown> {
  const iat = Math.floor(clock.now().getTime() / 1000)
  return {
    iss: ISSUER,
    aud: ENDPOINT,
    sub: seeded.api_key_id,
    pty: 'api_key',
    org: seeded.organization_id,
    prj: seeded.project_id,
    ws: seeded.workspace_id,
    epoch: 3,
    tools: ['exec', 'files'],
    sid: seeded.workspace_id,
    iat,
    exp: iat + 900,
    jti: crypto.randomUUID(),
  }
}

export function signToken(signer: Signer, claims: Record<string, unknown>, header: Record<string, unknown> = {}): Promise<string> {
  const defined = Object.fromEntries(Object.entries(claims).filter(([, value]) => value !== undefined))
  return new SignJWT(defined)
    .setProtectedHeader({ alg: 'ES256', typ: TOOL_TOKEN_TYPE, kid: signer.kid, ...header })
    .sign(signer.private_key)
}

export async function addSigningKey(database: TestDatabase, kid: string): Promise<Signer> {
  const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true })
  const public_jwk = JSON.stringify(await exportJWK(publicKey))
  await database.superuser.insertInto('signing_keys').values({ kid, public_jwk, created_at: new Date(), retired_at: null }).execute()
  return { kid, private_key: privateKey }
}

async function seed(database: TestDatabase, clock: Clock, id: () => string): Promise<Seeded> {
  const db = database.superuser
  const created_at = clock.now()
  const [plan_id, organization_id, project_id, cell_id, api_key_id, workspace_id, template_id, template_version_id] = Array.from({ length: 8 }, id) as [
    string, string, string, string, string, string, string, string,
  ] // prettier-ignore
  await db.insertInto('plans').values({ id: plan_id, slug: 'p', name: 'P', concurrent_workspaces: null, cpu_millis: null, memory_mib: null, disk_gib: null, refuses_starts: null, created_at }).execute() // prettier-ignore
  await db
    .insertInto('organizations')
    .values({ id: organization_id, name: 'O', slug: 'o', plan_id, allowance_exhausted: null, created_at })
    .execute()
  await db.insertInto('projects').values({ id: project_id, organization_id, name: 'P', slug: 'p', created_at }).execute()
  await db.insertInto('cells').values({ id: cell_id, name: 'c', endpoint: ENDPOINT, engine: null, capacity_cpu_millis: null, capacity_memory_mib: null, capacity_disk_gib: null, created_at, seen_at: null }).execute() // prettier-ignore
  await db.insertInto('api_keys').values({ id: api_key_id, key_id: 'k1', secret_sha256: Buffer.alloc(32), organization_id, project_id, tool_permissions: ['exec', 'files', 'pty'], created_at, expires_at: null, revoked_at: null, tools_changed_at: null }).execute() // prettier-ignore
  await db.insertInto('templates').values({ id: template_id, organization_id: null, slug: 't', created_at, archived_at: null }).execute()
  await db.insertInto('template_versions').values({ id: template_version_id, template_id, version: 1, layered: true, layers: [], settings: '{}', created_at, published_at: created_at, archived_at: null }).execute() // prettier-ignore
  await db
    .insertInto('workspaces')
    .values({
      id: workspace_id,
      organization_id,
      project_id,
      key: 'w',
      template_version_id,
      observed_state: 'running',
      desired_state: 'running',
      pending_reason: null,
      ended_reason: null,
      lifetime: 'persistent',
      mode: 'processful',
      disk_layout: 'layered',
      origin: null,
      ceiling_cpu_millis: 1000,
      ceiling_memory_mib: 512,
      ceiling_disk_gib: 1,
      grant_cpu_millis: null,
      grant_memory_mib: null,
      grant_disk_gib: null,
      startup: null,
      tree_revision: null,
      cell_id,
      ownership_epoch: 3,
      disk: null,
      checkpoint_id: null,
      idle_policy: null,
      active_at: created_at,
      tool_call_at: null,
      busy_until: null,
      keepalive_until: null,
      suspend_requested_at: null,
      suspend_after_seconds: null,
      suspend_not_before: null,
      tokens_revoked_before: null,
      created_at,
      updated_at: created_at,
      deleted_at: null,
    }) // prettier-ignore
    .execute()
  return { workspace_id, cell_id, api_key_id, organization_id, project_id, signer: await addSigningKey(database, 'key-1') }
}

function collectingLogger(lines: string[]): Logger {
  return pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) })
}

export async function refusalOf(response: Response): Promise<string> {
  const { error } = (await response.json()) as { error: { code: string; details?: { reason?: string } } }
  return `${response.status} ${error.code}${error.details?.reason ? `/${error.details.reason}` : ''}`
}
