import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { collectDefaultMetrics, Histogram, Registry } from 'prom-client'
import type { Observation } from '../http/pipeline.ts'
import { logAcceptErrors } from '../lib/accept-errors.ts'

export interface Metrics {
  registry: Registry
  observe(seen: Observation): void
}

export function openMetrics(): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const seconds = new Histogram({
    name: 'berth_http_request_seconds',
    help: 'Time from the request to the end of its answer; held calls include their wait',
    labelNames: ['route', 'method', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25],
    registers: [registry],
  })
  return {
    registry,
    observe: (seen) =>
      seconds.observe({ route: seen.route?.id ?? 'unknown', method: seen.route?.method ?? 'unknown', status: seen.status }, seen.seconds),
  }
}

export interface OpsOptions {
  listen: { host: string; port: number }
  registry: Registry
  check(): Promise<void>
}

const CHECK_MS = 2000

export async function startOps(options: OpsOptions): Promise<{ address: string; close(): Promise<void> }> {
  const answers: Record<string, () => Promise<{ status: number; type: string; body: string }>> = {
    '/healthz': async () => ({ status: 200, type: 'application/json', body: '{"status":"ok"}' }),
    '/readyz': () => readiness(options),
    '/metrics': async () => ({ status: 200, type: options.registry.contentType, body: await options.registry.metrics() }),
  }
  const server = createServer((request, response) => {
    const path = (request.url ?? '').split('?', 1)[0] ?? ''
    const answer = request.method === 'GET' || request.method === 'HEAD' ? answers[path] : undefined
    const missing = { status: 404, type: 'application/json', body: '{"status":"not found"}' }
    void (answer?.() ?? Promise.resolve(missing))
      .catch(() => ({ status: 500, type: 'application/json', body: '{"status":"error"}' }))
      .then(({ status, type, body }) => response.writeHead(status, { 'content-type': type }).end(body))
  })
  logAcceptErrors(server, null)
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(options.listen.port, options.listen.host, resolve))
  const { address, port } = server.address() as AddressInfo
  return {
    address: `http://${address}:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function readiness(options: OpsOptions) {
  const late = new Promise<never>((_resolve, reject) => setTimeout(() => reject(new Error('too late')), CHECK_MS).unref())
  const ready = await Promise.race([options.check(), late]).then(
    () => true,
    () => false, // a failed check is reported as not ready
  )
  return { status: ready ? 200 : 503, type: 'application/json', body: ready ? '{"status":"ready"}' : '{"status":"not ready"}' }
}
