import type { CountFrame } from '../../../contract/internal/ports.ts'
import type { PortRefusal } from '../../../contract/port-refusals.ts'
import type { Tally } from './frames.ts'

export interface PortMetrics {
  granted(over: AbortSignal): void
  refused(reason: PortRefusal): void
  used(use: Pick<CountFrame, 'requests' | 'received_bytes' | 'sent_bytes'>): void
  tallied(tally: Tally, more_connections: number): void
}
