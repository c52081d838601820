import type { FastifyRequest } from 'fastify'
import type { Surface } from '../../contract/errors.ts'
import { LIMITS } from '../../contract/limits.ts'
import type { Route } from '../../contract/route.ts'
import { fail, type Failure } from '../lib/fail.ts'
import type { Arrival, Call, Who } from './call.ts'
import { check, type Checks } from './checks.ts'
import { coerce, type coercionsOf } from './coerce.ts'
import type { Ending } from './ending.ts'
import { fingerprintOf, type Fingerprints, idempotencyKey, waitSeconds } from './headers.ts'
import { parseJson, readBody } from './read-body.ts'

export interface Parser {
  surface: Surface
  checks: Checks
  coercions: { params: ReturnType<typeof coercionsOf>; query: ReturnType<typeof coercionsOf> }
  header_names: readonly string[]
  /** null: the server does not support idempotency. */
  fingerprints: Fingerprints | null
}

/** Reads and checks a request, or refuses it with 400, 413, 415 or 422. */
export async function parse(parser: Parser, request: FastifyRequest, arrival: Arrival, who: Who | null, ending: Ending): Promise<Call> {
  const { route, request_id, now, address, url, headers } = arrival
  const params = request.params as Record<string, unknown>
  coerce(parser.coercions.params, params)
  const reads_body = route.body !== 'bytes' && route.method !== 'GET'
  const body = reads_body ? await parseBody(parser.surface, route, request) : undefined
  const query = request.query as Record<string, unknown>
  coerce(parser.coercions.query, query)
  const named_headers = namedHeaders(parser.header_names, headers)
  check(parser.surface, parser.checks, { params, query, headers: named_headers, body })
  return {
    route,
    request_id,
    now,
    address,
    url,
    headers,
    named_headers: named_headers,
    who: who as Call['who'],
    params,
    query,
    body,
    wait_seconds: route.waits ? waitSeconds(headers) : 0,
    idempotency: route.idempotent ? idempotencyOf(parser, request, body) : null,
    get signal() {
      return ending.signal
    },
    body_stream: request.raw,
  }
}

function namedHeaders(names: readonly string[], headers: Arrival['headers']): Record<string, unknown> {
  const given = names.map((name) => [name, headers[name.toLowerCase()]] as const)
  return Object.fromEntries(given.filter(([, value]) => value !== undefined))
}

function idempotencyOf({ fingerprints }: Parser, request: FastifyRequest, body: unknown): Call['idempotency'] {
  const key = fingerprints === null ? null : idempotencyKey(request.raw.headers)
  if (key === null || fingerprints === null) return null
  return { key, ...fingerprintOf(fingerprints, request.method, request.url, body) }
}

async function parseBody(surface: Surface, route: Route, request: FastifyRequest): Promise<unknown> {
  const bytes = await readBody(request.raw, route.body_bytes_max ?? LIMITS.json.body_bytes_max)
  const type = request.headers['content-type']
  const says_json = type !== undefined && /^application\/json\s*(;|$)/i.test(type.trim())
  if (bytes === null) {
    if (says_json) throw fail('bad_request', null, 'The body is empty, and Content-Type says JSON: leave the header out, or send {}')
    return {}
  }
  if (!says_json) throw wrongMediaType(surface)
  const parsed = parseJson(bytes)
  if (!parsed) throw fail('bad_request', null, 'The body is not valid JSON')
  return parsed.value
}

function wrongMediaType(surface: Surface): Failure {
  return fail(surface === 'app' ? 'unsupported_media_type' : 'bad_request', null, 'The body must be JSON, sent as application/json')
}
