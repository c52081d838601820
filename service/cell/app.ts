import type { Server } from 'node:http'
import type { Logger } from 'pino'
import type { DatabaseOptions } from '../db/options.ts'
import type { Clock } from '../lib/clock.ts'
import { openBase, openMachines, openServices, type CellBase, type CellMachines, type CellServices } from './cell-parts.ts'
import { startEngine, type Engine } from './engine.ts'
import { startGateway, type Gateway } from './tool-server.ts'
import type { MachineHost } from './host/hostd.ts'
import { queryActivity, probeLiveness, type AskActivity } from './machines/activity-query.ts'
import { createAgentCallCounter, type AgentCallCounter } from './machines/agent-calls.ts'
import type { WatchedMachines } from './machines/residency-clock.ts'
import type { ParkAfter } from './machines/residency-rules.ts'
import { residencyViewer, type ShowResidency } from './machines/show-residency.ts'
import { startPorts, type Ports } from './ports/ports.ts'
import { startOpsServer } from './ops-server.ts'
import { startConfirming } from './reconcile/revocations/confirm.ts'
import { revocationEnforcers } from './reconcile/revocations/enforcers.ts'
import type { KeptRevisions } from './filetree/trees/collect-store.ts'

/** Settings that service/config.ts reads from a file. */
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
  /** Folder of uploads; absent or empty: no uploads are stored. */
  uploads_dir?: string
  tree_revisions_kept: KeptRevisions
  database: DatabaseOptions
  log_level: 'debug' | 'info' | 'warn' | 'error'
  /** File system of PostgreSQL, and how much of it must stay free. Absent: no call is refused for lack of disk. */
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

const DRAIN_MS = 7000 // the supervisor waits longer for the exit

/** The parts of a running cell. */
interface RunningCell {
  base: CellBase
  machines: CellMachines
  services: CellServices
  activity: ActivityViews
  engine: Engine
  /** null: this process does not serve yet. */
  gateway: Gateway | null
  ports: Ports | null
}

/** Owns the machines of one computer: it drives their host, runs operations and serves the gateway. */
export async function startCell(config: CellConfig, parts: CellParts = {}): Promise<Cell> {
  const base = await openBase(config, parts)
  const isReady = (): boolean => running.gateway !== null && running.engine.isReady()
  const whyNotReady = (): string | null => running.engine.whyNot() ?? (running.gateway === null ? 'the gateway is being started' : null)
  const machines = openMachines(base, isReady)
  const services = await openServices(base, machines)
  const activity = openActivityViews(base, machines)
  const engine = startCellEngine(base, machines, services, activity)
  const running: RunningCell = { base, machines, services, activity, engine, gateway: null, ports: null }
  const ops = await startOpsServer({ listen: config.ops_listen, registry: machines.metrics.registry, whyNotReady })
  // Only while this process acts for the cell: a second process has no machines, and would refuse calls that the first one serves.
  const serving = engine.ready.then(() => serve(running))
  serving.catch((error: unknown) => {
    base.log.fatal({ err: error }, 'the gateway could not start')
    process.exitCode = 1
    process.kill(process.pid, 'SIGTERM') // ends the process, because a cell without its gateway is useless: the supervisor restarts it
  })
  return { ops_address: addressOf(ops), serving, close: () => close(running, ops) }
}

/** The parts that find out what guests do, and show it. */
interface ActivityViews {
  watched: WatchedMachines
  showResidency: ShowResidency
  questions: AgentCallCounter
  ask_activity: AskActivity
}

function openActivityViews({ config, parts, clock }: CellBase, { table, parking }: CellMachines): ActivityViews {
  const watched: WatchedMachines = new Map()
  return {
    watched,
    showResidency: residencyViewer({ table, parking, park_after: config.park_after, started_at: clock.now() }, watched),
    questions: createAgentCallCounter(),
    ask_activity: parts.ask_activity ?? queryActivity,
  }
}

function startCellEngine(base: CellBase, machines: CellMachines, services: CellServices, activity: ActivityViews): Engine {
  const { config, parts, cell_id, db, clock, ids, log, listener } = base
  const { host, table, room, parking, metrics, egress } = machines
  const { agents, guests, secrets, trees, executions } = services
  const { ask_activity, questions, watched } = activity
  const cell = { cell_id, db, clock, ids, host, table, room, parking, agents, guests, secrets, trees, executions, log }
  return startEngine({
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
}

/** @returns the gateway's address. */
async function serve(running: RunningCell): Promise<string> {
  const { config, cell_id, db, listener, clock, ids, log, closing } = running.base
  const { host, table, parking, metrics } = running.machines
  const { agents, secrets, trees, executions } = running.services
  const { showResidency, questions, ask_activity } = running.activity
  const parts = { table, host, agents, waking: parking, showResidency, secrets, trees, executions, db, listener, clock, ids, log }
  const gateway = await startGateway({
    ...parts,
    ask_activity: questions.counted(ask_activity),
    listen: config.listen,
    cell_id,
    issuer: config.base_url,
    endpoint: config.cell_endpoint,
    cors_origins: config.cors_origins ?? [],
  })
  running.gateway = gateway
  const ports = await startPorts({ ...parts, cell_id, metrics: metrics.ports }, config.ports_socket)
  running.ports = ports
  const enforcers = revocationEnforcers({ table, engine: running.engine, ports })
  closing.signal.addEventListener('abort', startConfirming({ cell_id, db, listener, log }, enforcers), { once: true })
  log.info({ gateway: gateway.address }, 'serving')
  return gateway.address
}

async function close(running: RunningCell, ops: Server): Promise<void> {
  const { base, machines, services, engine } = running
  running.gateway?.drain()
  await engine.close(DRAIN_MS)
  await running.gateway?.close()
  await running.ports?.close()
  services.agents.close()
  ops.close()
  machines.table.close()
  base.closing.abort()
  await machines.final.flush().catch(() => undefined) // without a database the counters since the last successful flush are lost
  await machines.host.close()
  await base.listener.close()
  await base.db.destroy()
}

function addressOf(server: Server): string {
  const address = server.address()
  return typeof address === 'object' && address !== null ? `http://${address.address}:${address.port}` : ''
}
