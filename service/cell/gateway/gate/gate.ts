import type { ReasonOf } from '../../../../contract/errors.ts'
import { ATTACH_PROTOCOL, BEARER_PROTOCOL_PREFIX } from '../../../../contract/schemas/cell/attach.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Arrival, ToolCaller, Who } from '../../../http/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { fail, Failure } from '../../../lib/fail.ts'
import { isUuid } from '../../../lib/ids.ts'
import type { AgentLink, AgentLinks, FileReads } from '../../links/agent.ts'
import { createAnswerRooms, type AnswerRoom, type AnswerRooms } from '../../links/answer-room.ts'
import { wakeFailed } from '../../machines/parking-refusals.ts'
import type { Waking } from '../../machines/parking.ts'
import type { LiveMachine, MachineTable, WorkspaceEntry } from '../../machines/table.ts'
import { type ApiKeys, keyRefusal } from './api-keys.ts'
import type { VerificationKeys } from './keys.ts'
import { crowded } from '../ask.ts'
import { hasTools, type People } from './people.ts'
import type { DiskReads } from '../disk/reads.ts'
import { readsOfSleeper } from '../disk/sleeper.ts'
import { diskOf, diskUnavailable, type DiskSource } from '../disk/source.ts'
import { createPlaces, type Places } from './places.ts'
import { decideSituation, isForAnotherMode, type Wanted } from './situation.ts'
import { verifyToken } from './token.ts'
import { createVerdicts } from './verdicts.ts'

/** The one place that every tool call passes (DESIGN §5, "Gate"). */
export interface Gate {
  /** 401 and 403. */
  authenticate(arrival: Arrival): Promise<ToolCaller>
  /** Every refusal that wins over the request itself. The ticket holds the machine awake until it is disposed of. */
  admit(arrival: Arrival, who: Who): Promise<Ticket>
  /** New calls are refused from now on. */
  drain(): void
  readonly draining: AbortSignal
}

/** A call that may be served, and by what. */
export interface Ticket extends Disposable {
  entry: WorkspaceEntry
  agent: AgentLink
  /** Who answers calls that read files: the machine's agent, or the reader of a sleeping workspace's disk. */
  files: FileReads
  /** Headers of what `files` answers. */
  read_headers: Record<string, string>
  /** Why the same call would be refused by now; null when it would not. */
  refusedBy(): Promise<Failure | null>
  /** A lifecycle operation has the workspace in hand: its machine may stand still. */
  held(): boolean
  /** What the call may keep in memory. */
  room: AnswerRoom
  draining: AbortSignal
}

export interface GateDeps {
  table: MachineTable
  keys: VerificationKeys
  api_keys: ApiKeys
  people: People
  agents: AgentLinks
  disks: DiskReads
  waking: Waking
  /** Takes a suspend request that a tool call made void out of the row. */
  cancelSuspend(asked: WorkspaceEntry, tool_call_at: Date): Promise<void>
  clock: Clock
  cell_id: string
  issuer: string
  audience: string
  places?: Places
  rooms?: AnswerRooms
}

const BEARER = /^Bearer ([^\s]+)$/i
/** Served to the end of the call, however long it follows. */
const STREAM_ROUTES: ReadonlySet<string> = new Set(['exec.output', 'exec.attach', 'pty.attach'])
/** Cell, "Workspace as seen by tool calls": what is answered for a suspended workspace, too. */
const DISK_ROUTES: ReadonlySet<string> = new Set(['files.read', 'files.stat', 'files.list', 'files.search'])
/** Cell, Endpoints: of any tool, and not tool activity. */
const isToolCall = (arrival: Arrival) => arrival.route.tool !== 'any'
/** Cell, Endpoints: a search is a POST and read-only. What comes in on a WebSocket changes things. */
const isRead = ({ route }: Arrival) => (route.method === 'GET' && route.websocket === undefined) || route.id === 'files.search'

export function createGate(deps: GateDeps): Gate {
  const verdicts = createVerdicts()
  const places = deps.places ?? createPlaces()
  const rooms = deps.rooms ?? createAnswerRooms()
  const draining = new AbortController()
  const { table } = deps

  const callerOf = async (token: string, now: Date) => {
    const known = verdicts.get(token)
    if (known !== undefined) return known
    const verified = await verifyToken(token, deps.keys, { issuer: deps.issuer, audience: deps.audience, now })
    if (verified !== null) verdicts.set(token, verified)
    return verified
  }
  const find = async (id: string) => table.get(id) ?? (await table.load(id))

  return {
    draining: draining.signal,
    drain: () => draining.abort(),
    async authenticate(arrival) {
      const caller = await callerOf(bearerOf(arrival), arrival.now)
      if (caller === null || caller.expires_at_seconds * 1000 <= arrival.now.getTime()) throw invalidToken()
      const entry = await find(caller.workspace_id)
      await refuseRevoked(deps, caller, entry, arrival.now)
      refuseForbidden(arrival, caller)
      return caller
    },
    async admit(arrival, who) {
      const caller = who as ToolCaller // authenticate() above makes no other
      if (draining.signal.aborted) throw fail('service_unavailable', 'draining', 'The gateway is shutting down', { retry_after_seconds: 1 })
      if (table.databaseLostMs() >= LIMITS.revocation_seconds_max * 1000) throw blind()
      const wanted = {
        ownership_epoch: caller.ownership_epoch,
        cell_id: deps.cell_id,
        read_only: isRead(arrival),
        mode: arrival.route.mode ?? null,
      }
      const reads_disks = DISK_ROUTES.has(arrival.route.id)
      let found = await settle(table, caller.workspace_id, wanted, reads_disks)
      if ('source' in found && found.entry.observed_state === 'suspended') return diskTicketOf(arrival, found.entry, found.source)
      if (isForAnotherMode(found.entry, wanted)) return ticketOf({ entry: found.entry, machine: null }, wanted, NOTHING_HELD)
      const held = hold(arrival, found.entry)
      try {
        if (found.entry.suspend_requested_at !== null && isToolCall(arrival)) {
          await deps.cancelSuspend(found.entry, deps.clock.now())
          found = await settle(table, caller.workspace_id, wanted, reads_disks) // its machine may have been frozen meanwhile
        }
        if ('source' in found) return sleeperTicketOf(found, wanted, held)
        return ticketOf(isToolCall(arrival) ? await awake(found.entry, wanted) : found, wanted, held)
      } catch (error) {
        held.places.dispose()
        throw error
      }
    },
  }

  /** The call's place and room, and what keeps its machine from being parked. */
  function hold(arrival: Arrival, entry: WorkspaceEntry): Held {
    const what = STREAM_ROUTES.has(arrival.route.id) ? 'stream' : 'call'
    const held = take(arrival, entry, what)
    if (!isToolCall(arrival)) return held
    table.touch(entry.id, 'tool_call')
    held.places.use(table.holdAwake(entry.id, what, { route: arrival.route.id, session_id: arrival.params['session_id'] ?? null }))
    return held
  }

  function take(arrival: Arrival, entry: WorkspaceEntry, what: 'call' | 'stream'): Held {
    using taken = new DisposableStack()
    taken.use(places.take(entry, what))
    const room = taken.use(rooms.open(entry, heldBytes(arrival)))
    if (room === null) throw crowded()
    return { places: taken.move(), room }
  }

  /** Cell, "Parking": the call wakes the machine first. What became of the workspace meanwhile is judged anew. */
  async function awake(found: WorkspaceEntry, wanted: Wanted): Promise<Served> {
    const until_ms = deps.clock.monotonic_ms() + LIMITS.wake_seconds_max * 1000
    for (let entry = found; ;) {
      const machine = deps.waking.ready(entry)
      if (machine !== null) return { entry, machine }
      if (deps.clock.monotonic_ms() > until_ms) throw wakeFailed()
      await deps.waking.wake(entry)
      entry = (await settle(table, entry.id, wanted, false)).entry
    }
  }

  function ticketOf(served: Served, wanted: Wanted, held: Held, from_disk?: Pick<Ticket, 'files' | 'read_headers'>): Ticket {
    const { entry } = served
    return {
      entry,
      // A call that needs no machine may find none.
      get agent() {
        return agentOf(served)
      },
      get files() {
        return from_disk?.files ?? agentOf(served)
      },
      read_headers: from_disk?.read_headers ?? {},
      async refusedBy() {
        // Without its database the cell still knows what it knew: better than no reason.
        const seen = await table.fresh(entry.id).catch(() => table.get(entry.id))
        if (seen === undefined || seen.deleted_at !== null) return revoked('revoked_workspace', 'The workspace was deleted')
        const decided = decideSituation(seen, wanted)
        return decided instanceof Failure ? decided : null
      },
      held: () => (table.get(entry.id)?.hold ?? null) !== null,
      room: held.room,
      draining: draining.signal,
      [Symbol.dispose]: () => held.places.dispose(),
    }
  }

  function agentOf({ entry, machine }: Served): AgentLink {
    if (machine === null) throw new Error('A sleeping workspace has no agent')
    return deps.agents.of(entry.id, machine, entry.gone)
  }

  /** Of a hibernated workspace, which stays so: a tool call all the same. */
  function sleeperTicketOf({ entry, source }: Asleep, wanted: Wanted, held: Held): Ticket {
    const read_headers = { 'x-served-from': 'disk' }
    const machine = async () => agentOf(await awake(entry, wanted))
    const files = readsOfSleeper(deps.disks.of(entry, source), read_headers, machine)
    return ticketOf({ entry, machine: null }, wanted, held, { files, read_headers })
  }

  /** Cell, File rules 3. No machine is kept awake, and reading a disk is no use of one. */
  function diskTicketOf(arrival: Arrival, entry: WorkspaceEntry, source: DiskSource): Ticket {
    const held = take(arrival, entry, 'call')
    return {
      entry,
      get agent(): AgentLink {
        throw new Error('A sleeping workspace has no agent')
      },
      files: deps.disks.of(entry, source),
      read_headers: { 'x-served-from': 'disk' },
      refusedBy: async () => null, // its files say why themselves
      held: () => false,
      room: held.room,
      draining: draining.signal,
      [Symbol.dispose]: () => held.places.dispose(),
    }
  }
}

/** What a call has taken until it ends. */
interface Held {
  places: DisposableStack
  room: AnswerRoom
}

/** Of a call that its route's handler refuses at once: it reads no answer, and its place would be given back before anybody waits for it. */
const NOTHING_HELD: Held = {
  places: new DisposableStack(),
  room: { take: () => undefined, turn: async () => undefined, [Symbol.dispose]: () => undefined },
}

/** Bytes of the request that are read before it is judged; the largest that it may have where it does not say. */
function heldBytes({ route, headers }: Arrival): number {
  if (route.method === 'GET' || route.body === 'bytes') return 0
  const bytes_max = route.body_bytes_max ?? LIMITS.json_body_bytes_max
  const length = Number(headers['content-length'] ?? (headers['transfer-encoding'] === undefined ? 0 : bytes_max))
  return Math.min(length, bytes_max)
}

/** A workspace as a call meets it, and the machine that serves it. */
interface Served {
  entry: WorkspaceEntry
  /** null: it has to be restored first. */
  machine: LiveMachine | null
}

interface Asleep {
  entry: WorkspaceEntry
  source: DiskSource
}

/** Looks again before it refuses: the change that a caller has just been told of by the API may be on its way here. */
async function settle(table: MachineTable, id: string, wanted: Wanted, reads_disks: boolean): Promise<Served | Asleep> {
  const seen = table.get(id)
  const decided = seen === undefined ? undefined : decideSituation(seen, wanted)
  if (seen !== undefined && decided !== undefined && !(decided instanceof Failure)) return servedBy(seen, decided, reads_disks)
  const entry = await table.fresh(id)
  if (entry === undefined) throw fail('not_found', null, 'There is no such workspace')
  const machine = decideSituation(entry, wanted)
  if (!(machine instanceof Failure)) return servedBy(entry, machine, reads_disks)
  if (!reads_disks || machine.code !== 'workspace_not_running') throw machine
  const source = diskOf(entry)
  if (source !== null) return { entry, source }
  throw entry.observed_state === 'suspended' ? diskUnavailable() : machine
}

/** What only reads files wakes nobody who sleeps. */
function servedBy(entry: WorkspaceEntry, machine: LiveMachine | null, reads_disks: boolean): Served | Asleep {
  const source = machine === null && reads_disks ? diskOf(entry) : null
  return source === null ? { entry, machine } : { entry, source }
}

function bearerOf(arrival: Arrival): string {
  const token = BEARER.exec(arrival.headers.authorization ?? '')?.[1] ?? protocolToken(arrival)
  if (token === undefined) throw fail('unauthenticated', null, 'The call needs a tool token: Authorization: Bearer <token>')
  return token
}

/** DECISIONS, "Gateway": browsers cannot set the header of a WebSocket, so its token may stand among the offered protocols. */
function protocolToken({ route, headers }: Arrival): string | undefined {
  if (route.websocket === undefined) return undefined
  const offered = headers['sec-websocket-protocol']?.split(',').map((name) => name.trim()) ?? []
  if (!offered.includes(ATTACH_PROTOCOL)) return undefined
  return offered.find((name) => name.startsWith(BEARER_PROTOCOL_PREFIX))?.slice(BEARER_PROTOCOL_PREFIX.length)
}

async function refuseRevoked(
  { api_keys, people }: GateDeps,
  caller: ToolCaller,
  entry: WorkspaceEntry | undefined,
  now: Date,
): Promise<void> {
  if (entry !== undefined && entry.deleted_at !== null) throw revoked('revoked_workspace', 'The workspace was deleted')
  const watermark = entry?.tokens_revoked_before ?? null
  if (watermark !== null && caller.issued_at_seconds * 1000 <= watermark.getTime()) {
    throw revoked('revoked_watermark', 'The tokens of the workspace were revoked')
  }
  if (caller.principal_type === 'user') {
    if (entry !== undefined && !hasTools(await people.of(caller.principal_id), entry.organization_id)) throw invalidToken()
    return
  }
  const standing = api_keys.of(caller.principal_id)
  const reason = keyRefusal(standing instanceof Promise ? await standing : standing, caller, now)
  if (reason !== null) throw revoked(reason, 'The API key behind the token was revoked or lost a tool')
}

function refuseForbidden(arrival: Arrival, caller: ToolCaller): void {
  const asked = arrival.params['workspace_id'] ?? ''
  // RELIABILITY T47: only the canonical spelling names a workspace. Another spelling of an id is another workspace's.
  if (asked !== caller.workspace_id || !spelledPlainly(arrival, asked)) {
    if (!isUuid(asked.toLowerCase()))
      throw fail('bad_request', null, 'The workspace id is not a uuid', { details: { field: 'workspace_id' } })
    throw fail('forbidden', null, 'The token is for another workspace')
  }
  const { tool } = arrival.route
  if (tool !== undefined && tool !== 'any' && !caller.tools.includes(tool)) {
    throw fail('forbidden', null, `The token does not include the tool ${tool}`, { details: { tool } })
  }
}

function spelledPlainly(arrival: Arrival, id: string): boolean {
  return arrival.url.startsWith(`/v1/workspaces/${id}/`)
}

function invalidToken(): Failure {
  return fail('unauthenticated', null, 'The tool token is not valid')
}

function revoked(reason: ReasonOf<'unauthenticated'>, message: string): Failure {
  return fail('unauthenticated', reason, message)
}

/** Revocations cannot be heard of: what might be revoked is not served (RELIABILITY T52). */
function blind(): Failure {
  return fail('service_unavailable', null, 'The gateway has lost its database', { retry_after_seconds: 1 })
}
