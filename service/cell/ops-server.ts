import { createServer, type Server, type ServerResponse } from 'node:http'
import type { Registry } from 'prom-client'
import { logAcceptErrors } from '../lib/accept-errors.ts'

export interface OpsOptions {
  listen: { host: string; port: number }
  registry: Registry
  /** null: the cell is ready. */
  whyNotReady(): string | null
}

/** Health, readiness and metrics, on a port that only operators reach. */
export async function startOpsServer({ listen, registry, whyNotReady }: OpsOptions): Promise<Server> {
  const server = createServer((request, response) => {
    if (request.url === '/healthz') return answer(response, 200, '{}')
    if (request.url === '/readyz') return answerReady(response, whyNotReady())
    if (request.url !== '/metrics') return answer(response, 404, '{}')
    registry.metrics().then(
      (text) => answer(response, 200, text, registry.contentType),
      () => answer(response, 500, '{}'),
    )
  })
  logAcceptErrors(server, null)
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', reject)
  server.listen(listen, resolve)
  await promise
  return server
}

function answerReady(response: ServerResponse, why: string | null): void {
  if (why === null) answer(response, 200, '{}')
  else answer(response, 503, JSON.stringify({ why }))
}

function answer(response: ServerResponse, status: number, body: string, type = 'application/json'): void {
  response.writeHead(status, { 'content-type': type })
  response.end(body)
}
