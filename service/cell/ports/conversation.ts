import type { Logger } from 'pino'
import type { AskFrame, ToProxy } from '../../../contract/internal/ports.ts'
import { LIMITS } from '../../../contract/limits.ts'
import { cookieOf, digestOf } from '../../core/workspaces/ports/credentials.ts'
import { workspaceOf } from '../../core/workspaces/ports/host-id.ts'
import type { PortMetrics } from './port-metrics.ts'
import { admitVisitor, type Admittance, type VisitDeps } from './admission.ts'
import type { CredentialCache } from './credentials.ts'
import type { FromProxy } from './frames.ts'
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
  /** The time since the database was lost. Above a limit, a possibly revoked credential is not served. */
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

/** Version 2 adds `known`, `settle` and `settled`, which version 1 is never sent. Version 3 adds `look`, which the proxy begins. */
const VERSIONS: ReadonlySet<number> = new Set([1, 2, 3])
const SETTLE_MS = LIMITS.port.settle_seconds_max * 1000

export function createConversation(deps: ConversationDeps, say: (frame: ToProxy) => void, end: () => void): Conversation {
  const { clock } = deps
  const leases = createLeases(clock, deps.nextLease, say)
  const asks = new Map<number, AbortController>()
  const waits = createWaits()
  const settling = new Map<number, (is_settled: boolean) => void>()
  let version = 0 // 0: no hello yet
  let last_settle = 0
  let closed = false
  let connections = 0

  const refuse = ({ id }: AskFrame, refusal: Refusal) => {
    deps.metrics?.refused(refusal.reason)
    say({ refuse: { id, ...told(refusal) } })
  }
  const answer = async (asked: AskFrame, signal: AbortSignal) => {
    try {
      const known = () => version > 1 && say({ known: { id: asked.id } })
      say(await answerTo(deps, leases, { waits, known }, asked, signal))
    } catch (error) {
      if (signal.reason === LEFT) return // the visitor has left
      refuse(asked, refusalOr(deps, error))
    }
  }
  const ask = (asked: AskFrame): boolean => {
    if (asks.has(asked.id)) return false
    if (asks.size >= LIMITS.port.asks_waiting_max || leases.size >= LIMITS.port.leases_max) {
      refuse(asked, new Refusal('too_many_requests', 1))
      return true
    }
    const abort = new AbortController()
    asks.set(asked.id, abort)
    const deadline = setTimeout(() => abort.abort(LATE), LIMITS.port.wait_seconds_max * 1000)
    void answer(asked, abort.signal).finally(() => {
      clearTimeout(deadline)
      asks.delete(asked.id)
    })
    return true
  }
  const busy = async (lease: Lease) => {
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
  const look = async (id: number, lease: Lease | undefined) => {
    const addresses = lease === undefined ? null : await deps.look(lease)
    if (!closed) say({ listeners: { id, addresses: addresses === null ? null : [...addresses] } })
  }
  const ofLease = (id: number, work: (lease: Lease) => void): boolean => {
    const lease = leases.get(id)
    if (lease !== undefined) work(lease) // otherwise it was cut, and the proxy is about to learn of it
    return true
  }
  return {
    leases,
    hear(frame) {
      if (closed) return false
      if ('hello' in frame) {
        const is_first = version === 0
        version = frame.hello.version
        return is_first && VERSIONS.has(version)
      }
      if (version === 0) return false
      if ('ask' in frame) return ask(frame.ask)
      if ('abort' in frame) {
        asks.get(frame.abort.id)?.abort(LEFT)
        return true
      }
      if ('busy' in frame) return ofLease(frame.busy.lease, (lease) => void busy(lease))
      if ('count' in frame) {
        const found = leases.countedFor(frame.count.lease)
        if (found !== undefined) deps.use.count(found, frame.count)
        if (found !== undefined) deps.metrics?.used(frame.count)
        return true
      }
      if ('settled' in frame) {
        settling.get(frame.settled.id)?.(true)
        return true
      }
      if ('tally' in frame) {
        deps.metrics?.tallied(frame.tally, frame.tally.connections - connections)
        connections = frame.tally.connections
        return true
      }
      if ('look' in frame) {
        void look(frame.look.id, leases.get(frame.look.lease))
        return true
      }
      if ('release' in frame) return ofLease(frame.release.lease, (lease) => leases.release(lease))
      return ofLease(frame.idle.lease, (lease) => {
        lease.held?.[Symbol.dispose]()
        lease.held = null
      })
    },
    async settle() {
      if (closed || version === 0) return false
      if (version < 2) return true // version 1 cannot confirm
      const { promise, resolve } = Promise.withResolvers<boolean>()
      const id = (last_settle += 1)
      settling.set(id, resolve)
      // A proxy that does not confirm is disconnected: the streams that it still passes on then end by themselves.
      const late = setTimeout(end, SETTLE_MS)
      say({ settle: { id } })
      return promise.finally(() => {
        clearTimeout(late)
        settling.delete(id)
      })
    },
    close() {
      closed = true
      for (const resolve of settling.values()) resolve(false)
      for (const abort of asks.values()) abort.abort(LEFT)
      leases.close()
      deps.metrics?.tallied({ connections: 0, turned_away: 0, refused: [] }, -connections)
      connections = 0
    },
  }
}

/** Bounds the waiting visitors per workspace. Counts only valid credentials, so that others cannot block them. */
interface Waits {
  take(workspace_id: string): Disposable
}

function createWaits(): Waits {
  const counts = new Map<string, number>()
  return {
    take(workspace_id) {
      const before = counts.get(workspace_id) ?? 0
      if (before >= LIMITS.port.asks_per_workspace_max) throw new Refusal('too_many_requests', 1)
      counts.set(workspace_id, before + 1)
      return {
        [Symbol.dispose]() {
          const left = (counts.get(workspace_id) ?? 1) - 1
          if (left === 0) counts.delete(workspace_id)
          else counts.set(workspace_id, left)
        },
      }
    },
  }
}

const LEFT = new Error('The visitor has left')
const LATE = new Error('The visitor has waited long enough')

async function answerTo(
  deps: ConversationDeps,
  leases: Leases,
  { waits, known }: { waits: Waits; known: () => void },
  asked: AskFrame,
  signal: AbortSignal,
): Promise<ToProxy> {
  const found = await credentialOf(deps, asked)
  if (found.kind === 'link') return redirectTo(deps, asked, found)
  using _place = waits.take(found.workspace_id)
  known()
  const { entry, place, held } = await admitBy(deps, found, signal)
  // Checks again for a revocation during the wake. Nothing is awaited from here to the grant, so any later revocation cuts the lease.
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

/** Returns the same refusal after the same work for a missing credential, a missing workspace, and a workspace elsewhere. */
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

/** Stops waiting at the signal; a machine that is admitted later is released. */
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
    log.error({ err: unforeseen }, 'a visitor of a port could not be judged')
    return new Refusal('unavailable', 1)
  }
}
