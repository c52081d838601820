import { Counter, Gauge, type Registry } from 'prom-client'
import { PORT_REFUSALS, type PortRefusal } from '../../../contract/port-refusals.ts'
import type { Tally } from './frames.ts'
import type { CountFrame } from '../../../contract/internal/ports.ts'

export interface PortMetrics {
  granted(over: AbortSignal): void
  refused(reason: PortRefusal): void
  used(use: Pick<CountFrame, 'requests' | 'received_bytes' | 'sent_bytes'>): void
  tallied(tally: Tally, more_connections: number): void
}

export function openPortMetrics(registry: Registry): PortMetrics {
  return { ...openVisitorMetrics(registry), ...openProxyMetrics(registry) }
}

/** Visitors that the cell admits, and their requests. */
function openVisitorMetrics(registry: Registry): Pick<PortMetrics, 'granted' | 'refused' | 'used'> {
  const visitors = new Counter({
    name: 'berth_port_visitors_total',
    help: 'Visitors of ports that were admitted, or refused by reason',
    labelNames: ['outcome'],
    registers: [registry],
  })
  const leases = new Gauge({ name: 'berth_port_leases', help: 'Admitted visitors of ports', registers: [registry] })
  const port_requests = new Counter({
    name: 'berth_port_requests_total',
    help: 'Requests that were relayed to ports of workspaces',
    registers: [registry],
  })
  const port_bytes = new Counter({
    name: 'berth_port_bytes_total',
    help: 'Bytes of visitors of ports: received from them, and sent to them',
    labelNames: ['direction'],
    registers: [registry],
  })
  // Starts every series at 0, because an alarm detects only the rise of an existing series.
  for (const direction of ['received', 'sent']) port_bytes.inc({ direction }, 0)
  visitors.inc({ outcome: 'granted' }, 0)
  for (const [reason, { by }] of Object.entries(PORT_REFUSALS)) if (by !== 'proxy') visitors.inc({ outcome: reason }, 0)
  return {
    granted(over) {
      visitors.inc({ outcome: 'granted' })
      leases.inc()
      over.addEventListener('abort', () => leases.dec(), { once: true })
    },
    refused: (reason) => visitors.inc({ outcome: reason }),
    used({ requests, received_bytes, sent_bytes }) {
      port_requests.inc(requests)
      port_bytes.inc({ direction: 'received' }, received_bytes)
      port_bytes.inc({ direction: 'sent' }, sent_bytes)
    },
  }
}

/** The answers and connections that proxies report. */
function openProxyMetrics(registry: Registry): Pick<PortMetrics, 'tallied'> {
  const told = new Counter({
    name: 'berth_port_refusals_total',
    help: 'Answers of the port proxy in place of the app, by reason',
    labelNames: ['reason'],
    registers: [registry],
  })
  const turned_away = new Counter({
    name: 'berth_port_turned_away_total',
    help: 'Visitor connections that were ended at once because there were too many',
    registers: [registry],
  })
  const connections = new Gauge({
    name: 'berth_port_connections',
    help: 'Open visitor connections, admitted or not',
    registers: [registry],
  })
  for (const reason of Object.keys(PORT_REFUSALS)) told.inc({ reason }, 0)
  return {
    tallied(tally, more_connections) {
      for (const [reason, many] of tally.refused) told.inc({ reason }, many)
      turned_away.inc(tally.turned_away)
      connections.inc(more_connections)
    },
  }
}
