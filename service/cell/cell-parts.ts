import type { Logger } from 'pino'
import { openDatabase, type Db } from '../db/database.ts'
import { cellChannels, openListener, type Listener } from '../db/listen.ts'
import { checkSchema } from '../db/schema-version.ts'
import { systemClock, type Clock } from '../lib/clock.ts'
import { createDiskReserve, NO_RESERVE, type DiskReserve } from '../lib/disk-reserve.ts'
import { createIds, type Ids } from '../lib/ids.ts'
import { openLog, type ProcessLog } from '../lib/log.ts'
import { tickEvery } from '../lib/poll.ts'
import { processMetrics } from '../lib/process-metrics.ts'
import type { CellConfig, CellParts } from './app.ts'
import { createCapacityAllocator, type CapacityAllocator } from './capacity/allocator.ts'
import { createExecutions, type Executions } from './filetree/executions/executions.ts'
import { createTrees, type Trees } from './filetree/trees/trees.ts'
import { createAgentLinks, type AgentLinks } from './host/agent.ts'
import { createGuestLinks, type GuestLinks } from './host/guest-links.ts'
import { connectHostd } from './host/hostd-client.ts'
import type { MachineHost } from './host/hostd.ts'
import { answerProxy } from './host/secret-proxy.ts'
import { registerCell } from './machines/cells-store.ts'
import { createMachineTable, type LiveTable } from './machines/live-table.ts'
import { createParking, type Parking } from './machines/parking.ts'
import { finalCounters, metered, type FinalCounters } from './metering/final-counters.ts'
import { addFinal, SAMPLE_MS } from './metering/sampler.ts'
import { openCellMetrics, type CellMetrics } from './metrics.ts'
import { enforcing } from './policies/egress/enforcing.ts'
import { createObservedPolicies, type ObservedPolicies } from './policies/egress/observed-policies.ts'
import { createAuthorities } from './policies/secrets/authorities.ts'
import { secretsToInject } from './policies/secrets/inject.ts'
import { openSecretKeys } from './policies/secrets/keys.ts'
import { createSecrets, type Secrets } from './policies/secrets/resolve.ts'

/** Settings, log and database, which every other part needs. */
export interface CellBase {
  config: CellConfig
  parts: CellParts
  clock: Clock
  own_log: ProcessLog
  log: Logger
  reserve: DiskReserve
  ids: Ids
  db: Db
  cell_id: string
  listener: Listener
  /** Ends pollers and servers that the engine does not own. */
  closing: AbortController
}

export async function openBase(config: CellConfig, parts: CellParts): Promise<CellBase> {
  const clock = parts.clock ?? systemClock
  const own_log = openLog({ level: config.log_level, base: { process: 'cell' } })
  const log = parts.log ?? own_log.logger
  const reserve = config.disk === undefined ? NO_RESERVE : createDiskReserve({ ...config.disk, clock })
  const ids = createIds(clock)
  await checkSchema(config.database)
  const db = openDatabase(config.database)
  const cell_id = await registerCell(db, { id: ids.next(), name: config.cell_name, endpoint: config.cell_endpoint }, clock.now())
  const listener = await openListener(config.database, cellChannels(cell_id))
  return { config, parts, clock, own_log, log, reserve, ids, db, cell_id, listener, closing: new AbortController() }
}

/** The host, and the state of its machines in memory. */
export interface CellMachines {
  host: MachineHost
  final: FinalCounters
  egress: ObservedPolicies
  table: LiveTable
  room: CapacityAllocator
  metrics: CellMetrics
  parking: Parking
}

export function openMachines(base: CellBase, isReady: () => boolean): CellMachines {
  const { config, parts, clock, own_log, log, reserve, ids, db, cell_id, listener, closing } = base
  const final = finalCounters((read) => addFinal({ db, clock }, read), log)
  const egress = createObservedPolicies()
  const host = enforcing(metered(parts.host ?? connectHostd(config.hostd_socket), final), { db, clock, log, book: egress })
  tickEvery(SAMPLE_MS, final.flush, () => undefined, closing.signal) // a failed flush is logged and retried
  const table = createMachineTable({ db, listener, clock, cell_id })
  const room = createCapacityAllocator({ db, cell_id })
  const metrics = openCellMetrics({ cell_id, db, clock, host, table, room, isReady })
  processMetrics(metrics.registry, reserve, own_log)
  const parking = createParking({ cell_id, db, clock, ids, host, table, room, log, metrics })
  return { host, final, egress, table, room, metrics, parking }
}

/** What operations and tool calls use of guests, secrets and trees. */
export interface CellServices {
  agents: AgentLinks
  guests: GuestLinks
  secrets: Secrets
  trees: Trees
  executions: Executions
}

export async function openServices(base: CellBase, { host, room }: CellMachines): Promise<CellServices> {
  const { config, clock, ids, db, cell_id, log, reserve } = base
  const agents = createAgentLinks()
  const secrets = await openSecrets(base)
  const trees = createTrees({ db, clock, folder: config.trees_dir, kept: config.tree_revisions_kept, reserve })
  const guests = createGuestLinks()
  const executions = createExecutions({ cell_id, db, clock, ids, host, room, trees, log, openLink: guests.open })
  return { agents, guests, secrets, trees, executions }
}

async function openSecrets({ config, parts, clock, ids, db, cell_id, log, closing }: CellBase): Promise<Secrets> {
  const opener = await openSecretKeys({ directory: config.secret_keys_dir, command: config.secret_keys_command, db, clock, log })
  const authorities = createAuthorities({ db, opener, clock, ids })
  const secrets = createSecrets({ db, opener, authorities, clock, log })
  const inject = (workspace_id: string, epoch: number) => secretsToInject({ cell_id, db, opener, authorities }, workspace_id, epoch)
  if (parts.host === undefined) void answerProxy(config.secrets_socket, inject, log, closing.signal)
  return secrets
}
