import type { MachineAddress, ToProxy } from '../../../contract/internal/ports.ts'
import { PORT_REFUSALS, type PortRefusal } from '../../../contract/port-refusals.ts'
import type { Clock } from '../../lib/clock.ts'
import type { GoneReason, WorkspaceEntry } from '../machines/table.ts'
import type { FoundCredential } from './store.ts'

export interface Lease {
  readonly id: number
  readonly found: FoundCredential
  /** Holds the machine awake; null: the machine may be parked. */
  held: Disposable | null
  readonly over: AbortSignal
}

export interface Leases {
  readonly size: number
  /** Grants a lease that ends with its machine, its credential or its expiry. */
  grant(found: FoundCredential, entry: WorkspaceEntry, held: Disposable): Lease
  get(id: number): Lease | undefined
  all(): Lease[]
  /** The credential to charge, also of a recently cut lease, whose last count is still to come. */
  countedFor(id: number): FoundCredential | undefined
  cut(lease: Lease, reason: PortRefusal): void
  release(lease: Lease): void
  close(): void
}

const GONE: Record<GoneReason, PortRefusal> = { deleted: 'workspace_gone', epoch_ended: 'machine_moved', died: 'machine_moved' }
/** The longest timeout that Node accepts. */
const TIMER_MS_MAX = 2 ** 31 - 1
const CUT_KNOWN_MAX = 1000

interface Kept extends Lease {
  end: AbortController
}

export function createLeases(clock: Clock, nextId: () => number, say: (frame: ToProxy) => void): Leases {
  const leases = new Map<number, Kept>()
  const drop = (lease: Lease): boolean => {
    const kept = leases.get(lease.id)
    if (kept === undefined) return false
    leases.delete(lease.id)
    kept.end.abort()
    kept.held?.[Symbol.dispose]()
    kept.held = null
    return true
  }
  const cut_lately = new Map<number, FoundCredential>()
  const cut = (lease: Lease, reason: PortRefusal) => {
    if (!drop(lease)) return
    cut_lately.set(lease.id, lease.found)
    const [oldest] = cut_lately.keys()
    if (cut_lately.size > CUT_KNOWN_MAX && oldest !== undefined) cut_lately.delete(oldest)
    say({ cut: { lease: lease.id, reason, status: PORT_REFUSALS[reason].status } })
  }
  const cutAtItsEnd = (lease: Lease) => {
    const { expires_at } = lease.found
    if (expires_at === null) return
    const left_ms = expires_at.getTime() - clock.now().getTime()
    const timer = setTimeout(
      () => (left_ms > TIMER_MS_MAX ? cutAtItsEnd(lease) : cut(lease, 'credential_expired')),
      Math.min(left_ms, TIMER_MS_MAX),
    )
    timer.unref()
    lease.over.addEventListener('abort', () => clearTimeout(timer), { once: true })
  }
  return {
    get size() {
      return leases.size
    },
    grant(found, entry, held) {
      const end = new AbortController()
      const lease: Kept = { id: nextId(), found, held, over: end.signal, end }
      leases.set(lease.id, lease)
      cutAtItsEnd(lease)
      entry.gone.addEventListener('abort', () => cut(lease, GONE[entry.gone.reason as GoneReason]), { once: true, signal: end.signal })
      return lease
    },
    get: (id) => leases.get(id),
    all: () => [...leases.values()],
    countedFor: (id) => leases.get(id)?.found ?? cut_lately.get(id),
    cut,
    release: drop,
    close() {
      for (const lease of leases.values()) drop(lease)
    },
  }
}

export function grantFrame(ask_id: number, { id, found }: Lease, place: MachineAddress, now: Date): ToProxy {
  const { port, workspace_id, expires_at } = found
  const expires_in_ms = expires_at === null ? null : Math.max(0, expires_at.getTime() - now.getTime())
  return { grant: { id: ask_id, lease: id, ...place, port, workspace_id, expires_in_ms } }
}
