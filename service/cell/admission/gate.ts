import { toolOf } from '../../../contract/access.ts'
import { LIMITS } from '../../../contract/limits.ts'
import { isReadOnly } from '../../../contract/route.ts'
import type { Arrival, ToolCaller, Who } from '../../http/call.ts'
import type { Clock } from '../../lib/clock.ts'
import { fail, type Failure } from '../../lib/fail.ts'
import type { AgentLinks } from '../host/agent.ts'
import { createBufferBudgets, type BufferBudget, type BufferBudgets } from '../host/buffer-budget.ts'
import type { Waking } from '../machines/parking.ts'
import type { WorkspaceEntry } from '../machines/table.ts'
import { crowded } from './crowded.ts'
import { withDiskReader } from './disk/live-disk-reads.ts'
import type { DiskReads } from './disk/reads.ts'
import { hibernatedReads } from './disk/hibernated-reads.ts'
import { type Admission, type Admitted, admitTo, refusedNow } from './admit.ts'
import { createCallPermits, type CallPermits } from './call-permits.ts'
import { cellRouteOf, isToolCall, modeRefusal, needsOf, placeOf } from './route-facts.ts'
import type { FilesCallLease, MachineCallLease, CallLease } from './call-lease.ts'
import { epochRefusal, toolTokens, type ToolTokenDeps } from './tool-tokens.ts'
import type { ToolUsage } from './tool-usage.ts'

export interface AdmissionControl {
  /** Rejects with 401, 403, or 429 if too many tokens wait for verification. */
  authenticate(arrival: Arrival): Promise<ToolCaller>
  /** Rejects with every refusal that precedes those of the request itself. @returns the call lease for the route's handler. */
  admit(arrival: Arrival, who: Who): Promise<CallLease | MachineCallLease | FilesCallLease>
  drain(): void
  readonly draining: AbortSignal
}

export interface GateDeps extends ToolTokenDeps {
  agents: AgentLinks
  disks: DiskReads
  waking: Waking
  /** Clears a suspend request that a tool call has voided. */
  cancelSuspend(asked: WorkspaceEntry, tool_call_at: Date): Promise<void>
  clock: Clock
  cell_id: string
  uses: Pick<ToolUsage, 'note'>
  places?: CallPermits
  rooms?: BufferBudgets
}

interface Taken extends Disposable {
  room: BufferBudget
}

interface Gate {
  deps: GateDeps
  places: CallPermits
  rooms: BufferBudgets
  draining: AbortController
}

export function createAdmissionControl(deps: GateDeps): AdmissionControl {
  const draining = new AbortController()
  const gate: Gate = { deps, places: deps.places ?? createCallPermits(), rooms: deps.rooms ?? createBufferBudgets(), draining }
  return {
    draining: draining.signal,
    drain: () => draining.abort(),
    authenticate: toolTokens(deps),
    admit: (arrival, who) => admit(gate, arrival, who as ToolCaller), // authenticate() above returns no other
  }
}

async function admit(gate: Gate, arrival: Arrival, caller: ToolCaller): Promise<CallLease | MachineCallLease | FilesCallLease> {
  const { deps, draining } = gate
  if (draining.signal.aborted) throw fail('service_unavailable', 'draining', 'The gateway is shutting down', { retry_after_seconds: 1 })
  if (deps.table.databaseLostMs() >= LIMITS.credential.revocation_seconds_max * 1000) throw blind()
  const admission = admissionOf(gate, arrival, caller)
  const admitted = await admitTo(deps, admission)
  const tool = toolOf(arrival.route)
  if (tool !== null && tool !== 'any') deps.uses.note(caller, tool, admitted.entry, arrival.address)
  return ticketOf(gate, admission, admitted)
}

function admissionOf(gate: Gate, arrival: Arrival, caller: ToolCaller): Admission<Taken> {
  const route = cellRouteOf(arrival.route)
  return {
    workspace_id: caller.workspace_id,
    needs: needsOf(route),
    tree: route.tree === true,
    read_only: isReadOnly(route),
    refusedBy: (entry) => epochRefusal(caller, entry) ?? modeRefusal(route, entry),
    hold: (entry) => hold(gate, arrival, entry),
  }
}

/** Also prevents the machine of a tool call from being parked. A read of a suspended workspace's disk is no activity. */
async function hold(gate: Gate, arrival: Arrival, entry: WorkspaceEntry): Promise<Taken> {
  const { deps } = gate
  const { params } = arrival
  const route = cellRouteOf(arrival.route)
  const { taken: own, room } = take(gate, arrival, entry)
  using taken = own
  if (isToolCall(route) && entry.observed_state !== 'suspended') {
    deps.table.touch(entry.id, 'tool_call')
    taken.use(deps.table.holdAwake(entry.id, placeOf(route), { route: route.id, session_id: params['session_id'] ?? null }))
    if (entry.suspend_requested_at !== null) await deps.cancelSuspend(entry, deps.clock.now()) // never fails
  }
  const until_the_end = taken.move()
  return { room, [Symbol.dispose]: () => until_the_end.dispose() }
}

function take({ places, rooms }: Gate, arrival: Arrival, entry: WorkspaceEntry): { taken: DisposableStack; room: BufferBudget } {
  using taken = new DisposableStack()
  taken.use(places.take(entry, entry.observed_state === 'suspended' ? 'call' : placeOf(cellRouteOf(arrival.route))))
  const room = taken.use(rooms.open(entry, heldBytes(arrival)))
  if (room === null) throw crowded()
  return { taken: taken.move(), room }
}

function ticketOf(
  { deps, draining }: Gate,
  admission: Admission<Taken>,
  admitted: Admitted<Taken>,
): CallLease | MachineCallLease | FilesCallLease {
  const { entry, held } = admitted
  const ticket: CallLease = {
    entry,
    refusedBy: () => refusedNow(deps, admission),
    held: () => (deps.table.get(entry.id)?.hold ?? null) !== null,
    room: held.room,
    draining: draining.signal,
    [Symbol.dispose]: () => held[Symbol.dispose](),
  }
  if (admitted.by === 'nothing') return ticket
  if (admitted.by === 'disk') return diskTicketOf(deps, ticket, admission, admitted)
  const disk = deps.disks.beside(entry, admitted.machine.epoch)
  const agent = withDiskReader(deps.agents.of(entry.id, admitted.machine, entry.gone), disk, entry.gone)
  return admission.needs === 'files' ? { ...ticket, files: agent, read_headers: {} } : { ...ticket, agent }
}

function diskTicketOf(
  deps: GateDeps,
  ticket: CallLease,
  admission: Admission<Taken>,
  { entry, source }: Admitted<Taken> & { by: 'disk' },
): FilesCallLease {
  const read_headers = { 'x-served-from': 'disk' }
  const files = deps.disks.of(entry, source)
  // Reads of a suspended workspace explain refusals themselves, so the lease reports none.
  if (entry.observed_state === 'suspended') return { ...ticket, files, read_headers, refusedBy: async () => null, held: () => false }
  const machine = async () => {
    const woken = await admitTo(deps, { ...admission, needs: 'machine', hold: () => HELD_ALREADY })
    if (woken.by !== 'machine') throw new Error('A machine was asked for, and another thing admitted')
    return deps.agents.of(woken.entry.id, woken.machine, woken.entry.gone)
  }
  return { ...ticket, files: hibernatedReads(files, read_headers, machine), read_headers }
}

const HELD_ALREADY: Disposable = { [Symbol.dispose]: () => undefined }

/** Request bytes that are buffered before validation; the route's maximum if the request does not announce its length. */
function heldBytes({ route, headers }: Arrival): number {
  if (route.method === 'GET' || route.body === 'bytes') return 0
  const bytes_max = route.body_bytes_max ?? LIMITS.json.body_bytes_max
  const length = Number(headers['content-length'] ?? (headers['transfer-encoding'] === undefined ? 0 : bytes_max))
  return Math.min(length, bytes_max)
}

/** Without the database revocations do not arrive, so a possibly revoked token must not be served. */
function blind(): Failure {
  return fail('service_unavailable', null, 'The gateway has lost its database', { retry_after_seconds: 1 })
}
