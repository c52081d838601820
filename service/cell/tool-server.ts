import { type TreeDeps, revisionHeaders } from './filetree/tree-calls/calls.ts'
import type { Logger } from 'pino'
import { LIMITS } from '../../contract/limits.ts'
import type { Db } from '../db/database.ts'
import type { Listener } from '../db/listen.ts'
import { createServer, type Observation, type ServerHandle } from '../http/pipeline.ts'
import type { Clock } from '../lib/clock.ts'
import type { Ids } from '../lib/ids.ts'
import type { AgentLinks } from './host/agent.ts'
import { AGENT_DEADLINES, type AgentDeadlines } from './host/agent-http.ts'
import type { BufferBudgets } from './host/buffer-budget.ts'
import { cancelSuspend } from './machines/cancel-suspend.ts'
import type { AskActivity } from './machines/activity-query.ts'
import type { ShowResidency } from './machines/show-residency.ts'
import type { Waking } from './machines/parking.ts'
import { tickEvery } from '../lib/poll.ts'
import type { Secrets } from './policies/secrets/resolve.ts'
import type { MachineTable } from './machines/table.ts'
import type { Executions } from './filetree/executions/executions.ts'
import type { Trees } from './filetree/trees/trees.ts'
import { createDiskReads, type DiskHost, type DiskReads } from './admission/disk/reads.ts'
import { openApiKeys } from './admission/api-keys.ts'
import { createAdmissionControl, type AdmissionControl, type GateDeps } from './admission/gate.ts'
import { openVerificationKeys } from './admission/keys.ts'
import { openPeople } from './admission/people.ts'
import type { CallPermits } from './admission/call-permits.ts'
import type { Signatures } from './admission/signatures.ts'
import type { CallLease } from './admission/call-lease.ts'
import { createToolUses, FLUSH_MS } from './admission/tool-usage.ts'
import { TOOL_ROUTES } from './tool-routes.ts'

export interface GatewayOptions {
  listen: { host: string; port: number }
  table: MachineTable
  host: DiskHost
  agents: AgentLinks
  waking: Waking
  showResidency: ShowResidency
  /** Asks as the cell itself, not as a caller, so that reading the idle state does not prevent parking. */
  ask_activity: AskActivity
  secrets: Secrets
  trees: Trees
  executions: Executions
  db: Db
  listener: Listener
  clock: Clock
  ids: Ids
  log: Logger
  cell_id: string
  /** `iss` of tool tokens: the public address of the api. */
  issuer: string
  /** `aud` of tool tokens: the public address of this cell. */
  endpoint: string
  cors_origins?: readonly string[]
  observe?: (seen: Observation) => void
  /** Tests: refuse answers that the contract does not declare. */
  validate_answers?: boolean
  /** Tests: shorter waits. */
  agent_deadlines?: AgentDeadlines
  drain_ms?: number
  reader_stalled_ms?: number
  signatures?: Signatures
  places?: CallPermits
  rooms?: BufferBudgets
}

/** Time for running calls to end and for readers to receive their data. */
const DRAIN_MS = 5000

export interface Gateway {
  address: string
  /** Refuses new calls, and ends streams with an event. */
  drain(): void
  close(): Promise<void>
}

export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { db, listener, clock, ids, log } = options
  const credentials = {
    keys: await openVerificationKeys(db, listener, clock),
    api_keys: openApiKeys(db, listener),
    people: openPeople(db, listener, clock),
  }
  const disks = openDiskReads(options)
  const uses = createToolUses({ db, clock, ids, log })
  const unwritten = (error: unknown) => log.warn({ err: error }, 'tool usage was not written yet')
  const closing = new AbortController()
  tickEvery(FLUSH_MS, uses.flush, unwritten, closing.signal)
  const gate = openAdmission(options, { ...credentials, disks, uses })
  const server = openServer(options, gate)
  const address = await server.listen(options.listen)
  return {
    address,
    drain: () => gate.drain(),
    async close() {
      gate.drain()
      // A stalled reader would delay the close for ever, so the time is limited.
      const late = setTimeout(() => server.breakOff(), options.drain_ms ?? DRAIN_MS)
      await server.close()
      clearTimeout(late)
      closing.abort()
      await uses.flush().catch(unwritten)
      credentials.api_keys.close()
      credentials.people.close()
      credentials.keys.close()
      disks.close()
    },
  }
}

function openDiskReads({ host, table, clock, agent_deadlines }: GatewayOptions): DiskReads {
  return createDiskReads({ host, table, clock, ...(agent_deadlines ? { deadlines: agent_deadlines } : {}) })
}

function openAdmission(options: GatewayOptions, own: Pick<GateDeps, 'keys' | 'api_keys' | 'people' | 'disks' | 'uses'>): AdmissionControl {
  return createAdmissionControl({
    ...own,
    table: options.table,
    waking: options.waking,
    cancelSuspend: (asked, tool_call_at) => cancelSuspend(options.db, asked, tool_call_at),
    agents: options.agents,
    clock: options.clock,
    cell_id: options.cell_id,
    issuer: options.issuer,
    audience: options.endpoint,
    ...(options.signatures ? { signatures: options.signatures } : {}),
    ...(options.places ? { places: options.places } : {}),
    ...(options.rooms ? { rooms: options.rooms } : {}),
  })
}

function openServer(options: GatewayOptions, gate: AdmissionControl): ServerHandle {
  const { db, table, ids, clock } = options
  return createServer<TreeDeps, CallLease>({
    surface: 'cell',
    routes: TOOL_ROUTES,
    deps: {
      db,
      table,
      ids,
      waking: options.waking,
      showResidency: options.showResidency,
      ask_activity: options.ask_activity,
      secrets: options.secrets,
      trees: options.trees,
      executions: options.executions,
      agent_idle_ms: (options.agent_deadlines ?? AGENT_DEADLINES).idle_ms,
    },
    reader_stalled_ms: options.reader_stalled_ms ?? LIMITS.stream.stalled_seconds_max * 1000,
    clock,
    ids,
    logger: options.log,
    ...(options.cors_origins ? { cors_origins: options.cors_origins } : {}),
    authenticate: (arrival) => gate.authenticate(arrival),
    admit: (arrival, who) => gate.admit(arrival, who),
    refusalHeaders: revisionHeaders(options),
    ...(options.observe ? { observe: options.observe } : {}),
    ...(options.validate_answers ? { validate_answers: true } : {}),
  })
}
