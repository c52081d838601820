import type { Logger } from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import { cookieOf, digestOf } from '../../core/workspaces/ports/credentials.ts'
import { workspaceOf } from '../../core/workspaces/ports/host-id.ts'
import { createKeyedCounts, type KeyedCounts } from '../../lib/bounded.ts'
import type { PortMetrics } from './port-metrics.ts'
import { admitVisitor, type Admittance, type VisitDeps } from './admission.ts'
import type { CredentialCache } from './credentials.ts'
import type { FromProxy } from './frames.ts'
import type { AskFrame, ToProxy } from '../../../contract/internal/ports.ts'
import { createLeases, grantFrame, type Lease, type Leases } from './leases.ts'
import type { FindListeners } from './listener-lookup.ts'
import { Refusal, refusalOf, told } from './refusal.ts'
import type { FoundCredential } from './store.ts'
import type { UseLedger } from './use.ts'
import type { Visits } from './visits.ts'

export interface ConversationDeps extends VisitDeps {
  book: CredentialCache
  use: UseLedger
  visits: Visits
  /** Milliseconds since the database was lost. Above a limit a credential is refused, because it may have been revoked. */
  databaseLostMs(): number
  nextLease(): number
  look: FindListeners
  metrics?: PortMetrics
  log: Logger
}

export interface Conversation {
  readonly leases: Leases
  /** @returns false for an invalid frame: the connection must be closed. */
  hear(frame: FromProxy): boolean
  /** Resolves when every stream of the cut leases has ended. @returns false if the proxy does not confirm it and is disconnected. */
  settle(): Promise<boolean>
  close(): void
}

/**
 * Version 2 adds `known`, `settle` and `settled`, which are never sent to version 1. Version 3 adds `look`, which the proxy sends first.
 */
const VERSIONS: ReadonlySet<number> = new Set([1, 2, 3])
const SETTLE_MS = LIMITS.port.settle_seconds_max * 1000

interface ConversationState {
  deps: ConversationDeps
  say: (frame: ToProxy) => void
  /** Disconnects the proxy. */
  end: () => void
  leases: Leases
  /** Visitors that wait for an answer, by the id of their `ask` frame. */
  asks: Map<number, AbortController>
  /** Number of waiting visitors of each workspace. */
  waits: KeyedCounts
  settling: Map<number, (is_settled: boolean) => void>
  last_settle: number
  /** 0: the proxy has not sent `hello` yet. */
  version: number
  closed: boolean
  /** Number of connections in the proxy's last tally. */
  connections: number
}

export function createConversation(deps: ConversationDeps, say: (frame: ToProxy) => void, end: () => void): Conversation {
  const leases = createLeases(deps.clock, deps.nextLease, say)
  const state: ConversationState = {
    deps,
    say,
    end,
    leases,
    asks: new Map(),
    waits: createKeyedCounts(),
    settling: new Map(),
    last_settle: 0,
    version: 0,
    closed: false,
    connections: 0,
  }
  return { leases, hear: (frame) => hear(state, frame), settle: () => settle(state), close: () => close(state) }
}

function hear(state: ConversationState, frame: FromProxy): boolean {
  const { deps, leases } = state
  if (state.closed) return false
  if ('hello' in frame) {
    const is_first = state.version === 0
    state.version = frame.hello.version
    return is_first && VERSIONS.has(state.version)
  }
  if (state.version === 0) return false
  if ('ask' in frame) return ask(state, frame.ask)
  if ('abort' in frame) {
    state.asks.get(frame.abort.id)?.abort(LEFT)
    return true
  }
  if ('busy' in frame) return ofLease(state, frame.busy.lease, (lease) => void becomeBusy(state, lease))
  if ('count' in frame) {
    const found = leases.countedFor(frame.count.lease)
    if (found !== undefined) deps.use.count(found, frame.count)
    if (found !== undefined) deps.metrics?.used(frame.count)
    return true
  }
  if ('settled' in frame) {
    state.settling.get(frame.settled.id)?.(true)
    return true
  }
  if ('tally' in frame) {
    deps.metrics?.tallied(frame.tally, frame.tally.connections - state.connections)
    state.connections = frame.tally.connections
    return true
  }
  if ('look' in frame) {
    void sayListeners(state, frame.look.id, leases.get(frame.look.lease))
    return true
  }
  if ('release' in frame) return ofLease(state, frame.release.lease, (lease) => leases.release(lease))
  return ofLease(state, frame.idle.lease, becomeIdle)
}

function ask(state: ConversationState, asked: AskFrame): boolean {
  const { asks, leases } = state
  if (asks.has(asked.id)) return false
  if (asks.size >= LIMITS.port.asks_waiting_max || leases.size >= LIMITS.port.leases_max) {
    refuse(state, asked, new Refusal('too_many_requests', 1))
    return true
  }
  const abort = new AbortController()
  asks.set(asked.id, abort)
  const deadline = setTimeout(() => abort.abort(LATE), LIMITS.port.wait_seconds_max * 1000)
  void answer(state, asked, abort.signal).finally(() => {
    clearTimeout(deadline)
    asks.delete(asked.id)
  })
  return true
}

async function answer(state: ConversationState, asked: AskFrame, signal: AbortSignal): Promise<void> {
  try {
    state.say(await answerTo(state, asked, signal))
  } catch (error) {
    if (signal.reason === LEFT) return // the visitor has left
    refuse(state, asked, refusalOr(state.deps, error))
  }
}

function refuse({ deps, say }: ConversationState, { id }: AskFrame, refusal: Refusal): void {
  deps.metrics?.refused(refusal.reason)
  say({ refuse: { id, ...told(refusal) } })
}

function ofLease({ leases }: ConversationState, id: number, work: (lease: Lease) => void): boolean {
  const lease = leases.get(id)
  if (lease !== undefined) work(lease) // otherwise the lease was cut, and the proxy will learn of it
  return true
}

async function becomeBusy({ deps, leases, say }: ConversationState, lease: Lease): Promise<void> {
  const signal = AbortSignal.any([lease.over, AbortSignal.timeout(LIMITS.port.wait_seconds_max * 1000)])
  try {
    const { place, held } = await admitBy(deps, lease.found, signal)
    if (lease.over.aborted || lease.held !== null) held[Symbol.dispose]()
    else lease.held = held
    if (!lease.over.aborted) say({ ready: { lease: lease.id, ...place } })
  } catch (error) {
    leases.cut(lease, refusalOr(deps, error).reason)
  }
}

function becomeIdle(lease: Lease): void {
  lease.held?.[Symbol.dispose]()
  lease.held = null
}

async function sayListeners(state: ConversationState, id: number, lease: Lease | undefined): Promise<void> {
  const addresses = lease === undefined ? null : await state.deps.look(lease)
  if (!state.closed) state.say({ listeners: { id, addresses: addresses === null ? null : [...addresses] } })
}

async function settle(state: ConversationState): Promise<boolean> {
  const { settling, version } = state
  if (state.closed || version === 0) return false
  if (version < 2) return true // version 1 cannot confirm
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const id = (state.last_settle += 1)
  settling.set(id, resolve)
  // A proxy that does not confirm is disconnected. The streams that it still passes on then time out.
  const late = setTimeout(state.end, SETTLE_MS)
  state.say({ settle: { id } })
  return promise.finally(() => {
    clearTimeout(late)
    settling.delete(id)
  })
}

function close(state: ConversationState): void {
  state.closed = true
  for (const resolve of state.settling.values()) resolve(false)
  for (const abort of state.asks.values()) abort.abort(LEFT)
  state.leases.close()
  state.deps.metrics?.tallied({ connections: 0, turned_away: 0, refused: [] }, -state.connections)
  state.connections = 0
}

/** Limits the waiting visitors of a workspace. Only valid credentials count, so that others cannot block them. */
function waitAt({ waits }: ConversationState, workspace_id: string): Disposable {
  if (waits.of(workspace_id) >= LIMITS.port.asks_per_workspace_max) throw new Refusal('too_many_requests', 1)
  return waits.take(workspace_id)
}

const LEFT = new Error('The visitor has left')
const LATE = new Error('The visitor has waited long enough')

async function answerTo(state: ConversationState, asked: AskFrame, signal: AbortSignal): Promise<ToProxy> {
  const { deps, leases } = state
  const found = await credentialOf(deps, asked)
  if (found.kind === 'link') return redirectTo(deps, asked, found)
  using _place = waitAt(state, found.workspace_id)
  if (state.version > 1) state.say({ known: { id: asked.id } })
  const { entry, place, held } = await admitBy(deps, found, signal)
  // Checks again for a revocation during the wake. No await follows before the grant, so any later revocation cuts the lease.
  const still = await credentialOf(deps, asked).catch((error: unknown) => {
    held[Symbol.dispose]()
    throw error
  })
  if (signal.aborted || entry.gone.aborted) {
    held[Symbol.dispose]()
    throw signal.aborted ? new Refusal('starting_timeout', 1) : new Refusal('unavailable', 1)
  }
  const lease = leases.grant(still, entry, held)
  deps.metrics?.granted(lease.over)
  deps.visits.record(still, asked)
  return grantFrame(asked.id, lease, place, deps.clock.now())
}

/**
 * The same refusal after the same work for a missing credential, a missing workspace, and a workspace elsewhere: visitors cannot
 * distinguish them.
 */
async function credentialOf(
  { book, clock, databaseLostMs }: ConversationDeps,
  { host_id, port, credential }: AskFrame,
): Promise<FoundCredential> {
  const digest = digestOf(credential.kind, credential.value)
  if (digest === null) throw new Refusal('credential_invalid')
  if (databaseLostMs() >= LIMITS.credential.revocation_seconds_max * 1000) throw new Refusal('unavailable', 1)
  const found = await book.find(digest)
  if (found === null || found.kind !== credential.kind || found.port !== port || found.workspace_id !== workspaceOf(host_id)) {
    throw new Refusal('credential_invalid')
  }
  if (found.expires_at !== null && found.expires_at <= clock.now()) throw new Refusal('credential_expired')
  return found
}

function redirectTo({ clock }: ConversationDeps, { id, credential }: AskFrame, { path, expires_at }: FoundCredential): ToProxy {
  const left_ms = (expires_at?.getTime() ?? 0) - clock.now().getTime()
  return {
    redirect: { id, path: path ?? '/', cookie: cookieOf(credential.value), max_age_seconds: Math.max(1, Math.floor(left_ms / 1000)) },
  }
}

/** Stops waiting at the signal. If the machine is admitted later, its hold is released. */
async function admitBy(deps: ConversationDeps, visit: FoundCredential, signal: AbortSignal): Promise<Admittance> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const end = () => reject(signal.reason === LEFT ? LEFT : new Refusal('starting_timeout', 1))
  signal.addEventListener('abort', end, { once: true })
  if (signal.aborted) end()
  try {
    return await Promise.race([admitVisitor(deps, visit, signal), late])
  } finally {
    signal.removeEventListener('abort', end)
  }
}

function refusalOr({ log }: ConversationDeps, error: unknown): Refusal {
  try {
    return refusalOf(error)
  } catch (unforeseen) {
    log.error({ err: unforeseen }, 'a visitor of a port could not be admitted or refused')
    return new Refusal('unavailable', 1)
  }
}
