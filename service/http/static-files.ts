import type { FastifyInstance } from 'fastify'

export interface StaticFile {
  type: string
  bytes: Buffer
}

/** A page may load files from this service and call its API only, and may not be framed. */
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'cross-origin-opener-policy': 'same-origin',
  'cache-control': 'no-cache',
}

/** Serves files without authentication, because they contain no data of a tenant. */
export function serveFiles(app: FastifyInstance, files: ReadonlyMap<string, StaticFile>): void {
  for (const [path, { type, bytes }] of files)
    app.get(path, (request, reply) => reply.headers({ ...HEADERS, 'content-type': type, 'x-request-id': request.id }).send(bytes))
}
