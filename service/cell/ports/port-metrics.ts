import type { CountFrame } from '../../../contract/internal/ports.ts'
import type { PortRefusal } from '../../../contract/port-refusals.ts'
import type { Tally } from './frames.ts'

export interface PortMetrics {
  /** @param over fires when the lease ends. */
  granted(over: AbortSignal): void
  refused(reason: PortRefusal): void
  used(use: Pick<CountFrame, 'requests' | 'received_bytes' | 'sent_bytes'>): void
  /** A proxy's own counters, and the change in its open connections. */
  tallied(tally: Tally, more_connections: number): void
}
