import type { IncomingMessage, ServerResponse } from 'node:http'
import { LIMITS } from '../../contract/limits.ts'
import type { Route } from '../../contract/route.ts'
import { propertiesOf } from './checks.ts'

/** Cross-origin access for pages of configured origins (decision 278). */
export interface Cors {
  /** Adds the CORS headers to every answer for an allowed origin, including refusals. */
  mark(request: IncomingMessage, response: ServerResponse): void
  /** @returns the headers for a preflight request; null: the request is no preflight, or its origin is not allowed. */
  preflight(request: IncomingMessage, methods: readonly string[]): Record<string, string> | null
}

/** Headers that are allowed in addition to those that routes declare. */
const SENT = ['Authorization', 'Content-Type', 'Accept', 'Idempotency-Key', 'If-Match', 'Prefer', 'Range', 'X-Request-Id']
const READ = ['X-Request-Id', 'Retry-After', 'WWW-Authenticate', 'Allow', 'Idempotent-Replayed', 'Content-Length']

/**
 * Cookies are ignored, and `Access-Control-Allow-Credentials` is never sent. A page therefore gets the rights of the credential that it
 * sends, and none of its visitor's.
 */
export function createCors(origins: readonly string[], routes: readonly Route[]): Cors {
  const let_in = new Set(origins)
  const sent = listOf([...SENT, ...routes.flatMap(({ headers }) => Object.keys(propertiesOf(headers)))])
  const read = listOf([
    ...READ,
    ...routes.flatMap(({ answers }) => Object.values(answers).flatMap(({ headers = {} }) => Object.keys(headers))),
  ])
  const isLetIn = ({ headers: { origin } }: IncomingMessage): boolean => origin !== undefined && let_in.has(origin)
  return {
    mark(request, response) {
      response.setHeader('vary', 'Origin') // a cached answer depends on the origin
      if (!isLetIn(request)) return
      response.setHeader('access-control-allow-origin', String(request.headers.origin))
      response.setHeader('access-control-expose-headers', read)
    },
    preflight(request, methods) {
      if (request.method !== 'OPTIONS' || methods.length === 0 || !isLetIn(request)) return null
      if (request.headers['access-control-request-method'] === undefined) return null
      return {
        'access-control-allow-methods': methods.join(', '),
        'access-control-allow-headers': sent,
        'access-control-max-age': String(LIMITS.cors.preflight_seconds),
      }
    },
  }
}

function listOf(names: readonly string[]): string {
  return [...new Map(names.map((name) => [name.toLowerCase(), name])).values()].join(', ')
}
