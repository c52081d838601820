import type { Logger } from 'pino'
import { openDatabase } from '../db/database.ts'
import type { DatabaseOptions } from '../db/options.ts'
import { cellChannels, openListener } from '../db/listen.ts'
import { checkSchema } from '../db/schema-version.ts'
import { systemClock, type Clock } from '../lib/clock.ts'
import { createDiskReserve, NO_RESERVE } from '../lib/disk-reserve.ts'
import { createIds } from '../lib/ids.ts'
import { openLog } from '../lib/log.ts'
import { processMetrics } from '../lib/process-metrics.ts'
import { createObservedPolicies } from './policies/egress/observed-policies.ts'
import { enforcing } from './policies/egress/enforcing.ts'
import { startEngine } from './engine.ts'
import { startGateway, type Gateway } from './tool-server.ts'
import { createAgentLinks } from './host/agent.ts'
import { createGuestLinks } from './host/guest-links.ts'
import type { MachineHost } from './host/hostd.ts'
import { answerProxy } from './host/secret-proxy.ts'
import { connectHostd } from './host/hostd-client.ts'
import { queryActivity, probeLiveness, type AskActivity } from './machines/activity-query.ts'
import { createAgentCallCounter } from './machines/agent-calls.ts'
import { registerCell } from './machines/cells-store.ts'
import { createMachineTable } from './machines/live-table.ts'
import { createParking } from './machines/parking.ts'
import type { WatchedMachines } from './machines/residency-clock.ts'
import type { ParkAfter } from './machines/residency-rules.ts'
import { residencyViewer } from './machines/show-residency.ts'
import { openCellMetrics } from './metrics.ts'
import { createCapacityAllocator } from './capacity/allocator.ts'
import { finalCounters, metered } from './metering/final-counters.ts'
import { addFinal, SAMPLE_MS } from './metering/sampler.ts'
import { createAuthorities } from './policies/secrets/authorities.ts'
import { openSecretKeys } from './policies/secrets/keys.ts'
import { secretsToInject } from './policies/secrets/inject.ts'
import { createSecrets } from './policies/secrets/resolve.ts'
import { startPorts, type Ports } from './ports/ports.ts'
import { tickEvery } from '../lib/poll.ts'
import { startOpsServer } from './ops-server.ts'
import { startConfirming } from './reconcile/revocations/confirm.ts'
import { revocationEnforcers } from './reconcile/revocations/enforcers.ts'
import type { KeptRevisions } from './filetree/trees/collect-store.ts'
import { createExecutions } from './filetree/executions/executions.ts'
import { createTrees } from './filetree/trees/trees.ts'

/** Read from a file by service/config.ts. */
export interface CellConfig {
  listen: { host: string; port: number }
  ops_listen: { host: string; port: number }
  base_url: string
  cell_endpoint: string
  /** Origins whose pages may read answers; absent: none. */
  cors_origins?: readonly string[]
  cell_name: string
  hostd_socket: string
  /** Socket for the proxies of ports, in a folder of their group. */
  ports_socket: string
  /** Socket for the proxy that puts secrets into requests. */
  secrets_socket: string
  trees_dir: string
  /** Folder of uploads; absent or empty: none are kept. */
  uploads_dir?: string
  tree_revisions_kept: KeptRevisions
  database: DatabaseOptions
  log_level: 'debug' | 'info' | 'warn' | 'error'
  /** File system of PostgreSQL, and how much of it stays free; absent: no call is refused for it. */
  disk?: { folder: string; reserve_bytes: number }
  park_after: ParkAfter
  /** Folder of the private keys that open secrets; only this process's user can enter it. */
  secret_keys_dir: string
  secret_keys_command: string
  quarantine_days: number
  warm_machines_max: number
}

/** Replacements for tests. */
export interface CellParts {
  host?: MachineHost
  clock?: Clock
  log?: Logger
  ask_activity?: AskActivity
}

export interface Cell {
  ops_address: string
  /** The gateway's address, once this process acts for the cell and serves. */
  serving: Promise<string>
  close(): Promise<void>
}

const DRAIN_MS = 7000 // less than the supervisor waits

/** Owns the machines of one computer: drives its host, runs its operations, serves its gateway. */
export async function startCell(config: CellConfig, parts: CellParts = {}): Promise<Cell> {
  const clock = parts.clock ?? systemClock
  const own_log = openLog({ level: config.log_level, base: { process: 'cell' } })
  const log = parts.log ?? own_log.logger
  const reserve = config.disk === undefined ? NO_RESERVE : createDiskReserve({ ...config.disk, clock })
  const ids = createIds(clock)
  await checkSchema(config.database)
  const db = openDatabase(config.database)
  const cell_id = await registerCell(db, { id: ids.next(), name: config.cell_name, endpoint: config.cell_endpoint }, clock.now())
  const listener = await openListener(config.database, cellChannels(cell_id))
  const final = finalCounters((read) => addFinal({ db, clock }, read), log)
  const egress = createObservedPolicies()
  const host = enforcing(metered(parts.host ?? connectHostd(config.hostd_socket), final), { db, clock, log, book: egress })
  const closing = new AbortController()
  tickEvery(SAMPLE_MS, final.flush, () => undefined, closing.signal) // a failed flush is logged and retried
  const table = createMachineTable({ db, listener, clock, cell_id })
  let gateway: Gateway | null = null
  let ports: Ports | null = null
  const isReady = (): boolean => gateway !== null && engine.isReady()
  const whyNotReady = (): string | null => engine.whyNot() ?? (gateway === null ? 'the gateway is being started' : null)
  const room = createCapacityAllocator({ db, cell_id })
  const metrics = openCellMetrics({ cell_id, db, clock, host, table, room, isReady })
  processMetrics(metrics.registry, reserve, own_log)
  const parking = createParking({ cell_id, db, clock, ids, host, table, room, log, metrics })
  const agents = createAgentLinks()
  const opener = await openSecretKeys({ directory: config.secret_keys_dir, command: config.secret_keys_command, db, clock, log })
  const authorities = createAuthorities({ db, opener, clock, ids })
  const secrets = createSecrets({ db, opener, authorities, clock, log })
  const putIn = (workspace_id: string, epoch: number) => secretsToInject({ cell_id, db, opener, authorities }, workspace_id, epoch)
  if (parts.host === undefined) void answerProxy(config.secrets_socket, putIn, log, closing.signal)
  const trees = createTrees({ db, clock, folder: config.trees_dir, kept: config.tree_revisions_kept, reserve })
  const guests = createGuestLinks()
  const executions = createExecutions({ cell_id, db, clock, ids, host, room, trees, log, openLink: guests.open })
  const cell = { cell_id, db, clock, ids, host, table, room, parking, agents, guests, secrets, trees, executions, log }
  const watched: WatchedMachines = new Map()
  const showResidency = residencyViewer({ table, parking, park_after: config.park_after, started_at: clock.now() }, watched)
  const questions = createAgentCallCounter()
  const ask_activity = parts.ask_activity ?? queryActivity
  const engine = startEngine({
    cell: {
      ...cell,
      metrics,
      uploads_dir: config.uploads_dir ?? '',
      quarantine_days: config.quarantine_days,
      warm_machines_max: config.warm_machines_max,
    },
    listener,
    egress,
    database: config.database,
    endpoint: config.cell_endpoint,
    ask_activity,
    questions,
    park_after: config.park_after,
    watched,
    // The guests of a test's own host cannot be probed.
    ...(parts.host === undefined ? { ask_alive: probeLiveness } : {}),
  })
  const ops = await startOpsServer({ listen: config.ops_listen, registry: metrics.registry, whyNotReady })
  // Only while this process acts for the cell: a second process knows no machine, and would refuse what the first serves.
  const serving = engine.ready.then(async () => {
    const { listen, base_url: issuer, cell_endpoint: endpoint, cors_origins = [] } = config
    const parts = { table, host, agents, waking: parking, showResidency, secrets, trees, executions, db, listener, clock, ids, log }
    gateway = await startGateway({
      ...parts,
      ask_activity: questions.counted(ask_activity),
      listen,
      cell_id,
      issuer,
      endpoint,
      cors_origins,
    })
    ports = await startPorts({ ...parts, cell_id, metrics: metrics.ports }, config.ports_socket)
    const enforcers = revocationEnforcers({ table, engine, ports })
    closing.signal.addEventListener('abort', startConfirming({ cell_id, db, listener, log }, enforcers), { once: true })
    log.info({ gateway: gateway.address }, 'serving')
    return gateway.address
  })
  serving.catch((error: unknown) => {
    log.fatal({ err: error }, 'the gateway could not start')
    process.exitCode = 1
    process.kill(process.pid, 'SIGTERM') // a cell without its gateway is useless: close and restart
  })
  return {
    ops_address: addressOf(ops),
    serving,
    async close() {
      gateway?.drain()
      await engine.close(DRAIN_MS)
      await gateway?.close()
      await ports?.close()
      agents.close()
      ops.close()
      table.close()
      closing.abort()
      await final.flush().catch(() => undefined) // without a database only the last flush is kept
      await host.close()
      await listener.close()
      await db.destroy()
    },
  }
}

function addressOf(server: Awaited<ReturnType<typeof startOpsServer>>): string {
  const address = server.address()
  return typeof address === 'object' && address !== null ? `http://${address.address}:${address.port}` : ''
}
