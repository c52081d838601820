import type { PortRefusal } from '../../../contract/port-refusals.ts'
import type { Count, Tally } from './frames.ts'

export interface PortMetrics {
  granted(over: AbortSignal): void
  refused(reason: PortRefusal): void
  used(use: Pick<Count, 'requests' | 'received_bytes' | 'sent_bytes'>): void
  tallied(tally: Tally, more_connections: number): void
}
