import { createServer, type Server, type ServerResponse } from 'node:http'
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { LiveTable } from './machines/live-table.ts'

export interface OpsOptions {
  listen: { host: string; port: number }
  table: LiveTable
  isReady(): boolean
}

/** Health, readiness and metrics, on a port that only operators reach. */
export async function startOpsServer(options: OpsOptions): Promise<Server> {
  const registry = metricsOf(options)
  const server = createServer((request, response) => {
    if (request.url === '/healthz') return answer(response, 200, '{}')
    if (request.url === '/readyz') return answer(response, options.isReady() ? 200 : 503, '{}')
    if (request.url !== '/metrics') return answer(response, 404, '{}')
    registry.metrics().then(
      (text) => answer(response, 200, text, registry.contentType),
      () => answer(response, 500, '{}'),
    )
  })
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', reject)
  server.listen(options.listen, resolve)
  await promise
  return server
}

function answer(response: ServerResponse, status: number, body: string, type = 'application/json'): void {
  response.writeHead(status, { 'content-type': type })
  response.end(body)
}

function metricsOf({ table, isReady }: OpsOptions): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const gauge = (name: string, help: string, value: () => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(value())
      },
    })
  gauge('berth_cell_acts', '1 while this process acts for the cell', () => (isReady() ? 1 : 0))
  gauge('berth_cell_machines', 'Machines that run for a workspace', () => table.known().filter(({ machine }) => machine !== null).length)
  gauge('berth_cell_database_lost_seconds', 'Time since contact with the database was last proven', () => table.databaseLostMs() / 1000)
  return registry
}
