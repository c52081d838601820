import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import type { Server } from 'node:http'
import type { Logger } from 'pino'
import type { Surface } from '../../contract/errors.ts'
import { LIMITS } from '../../contract/limits.ts'
import type { Route } from '../../contract/route.ts'
import type { Clock } from '../lib/clock.ts'
import { fail, type Failure } from '../lib/fail.ts'
import type { Ids } from '../lib/ids.ts'
import { checkAnswer, checkRefusal, compileDeclared, type Declared } from './answers.ts'
import type { Arrival, Bound, Call, Reply, Who } from './call.ts'
import { check, compileChecks, type Checks } from './checks.ts'
import { answerBrokenRequest } from './client-error.ts'
import { asFailure, refusal } from './envelope.ts'
import { fingerprint, idempotencyKey, requestId, waitSeconds } from './headers.ts'
import { parseJson, readBody } from './read-body.ts'

/** What the server keeps of (I) calls, so that a repeat finds it. */
export interface Idempotency<Deps, Ticket> {
  /** Keys the digests of bodies. */
  secret: Buffer
  /** The answer of an earlier call with this key, made afresh; null when there was none. Refuses a key of another request. */
  replay(call: Call, deps: Deps, ticket: Ticket): Promise<Reply | null>
  /** Keeps a decided refusal. Changes are kept by the transaction that makes them, not here. */
  keepRefusal(call: Call, failure: Failure, deps: Deps): Promise<void>
}

export interface Observation {
  route: Route | null
  method: string
  status: number
  seconds: number
}

export interface ServerOptions<Deps, Ticket> {
  surface: Surface
  routes: readonly Bound<Deps, Ticket>[]
  deps: Deps
  clock: Clock
  ids: Ids
  logger: Logger
  /** Who calls, and whether this route is theirs: 401 and 403. Not asked on routes of auth 'none'. */
  authenticate(arrival: Arrival): Promise<Who>
  /** Refuses a caller who is over a rate. */
  rate?(arrival: Arrival, who: Who): Promise<void>
  /** Refusals that win over whatever is wrong with the request itself. A disposable ticket is disposed of when the answer has ended. */
  admit?(arrival: Arrival, who: Who): Promise<Ticket>
  idempotency?: Idempotency<Deps, Ticket>
  /** Refuse to send what the contract does not declare: for tests and development. */
  validate_answers?: boolean
  observe?(seen: Observation): void
}

export interface ServerHandle {
  /** @returns the address that it listens on: `http://127.0.0.1:1234`, or the socket's path. */
  listen(where: { host: string; port: number } | { path: string }): Promise<string>
  /** Stops accepting, lets calls in progress end, closes idle connections. */
  close(): Promise<void>
  http: Server
}

interface Entry<Deps, Ticket> extends Bound<Deps, Ticket> {
  checks: Checks
  declared: Declared | null
}

/** Serves routes: the one way from a request to its answer, on both surfaces. */
export function createServer<Deps, Ticket = undefined>(options: ServerOptions<Deps, Ticket>): ServerHandle {
  const { surface, ids, logger } = options
  const app = Fastify({
    logger: false,
    exposeHeadRoutes: surface === 'app', // a gateway's reads wake machines and stream: a HEAD of them has no meaning
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: 4096 }, // longer ones than any route takes still reach the check that refuses them by name
    requestTimeout: 120_000,
    genReqId: (raw) => requestId(raw.headers, () => ids.next()),
    clientErrorHandler: (error, socket) => answerBrokenRequest(surface, ids, error, socket),
    frameworkErrors: (_error, request, reply) => {
      sendRefusal(options, null, request, reply, fail('bad_request', null, 'The address of the request is malformed'))
    },
  })
  const in_progress = countCalls()
  app.addHook('onRequest', (_request, reply, done) => {
    in_progress.begin()
    reply.raw.once('close', in_progress.end)
    done()
  })
  // Bodies are read by serve() below, after it is known who asks.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.setErrorHandler((error, request, reply) => sendRefusal(options, null, request, reply, transportFailure(surface, error)))
  app.setNotFoundHandler((request, reply) => {
    observeEnd(options, null, request, reply)
    sendRefusal(options, null, request, reply, fail('not_found', null, 'There is no such route'))
  })
  for (const bound of options.routes) {
    const entry: Entry<Deps, Ticket> = {
      ...bound,
      checks: compileChecks(bound.route),
      declared: options.validate_answers ? compileDeclared(bound.route) : null,
    }
    app.route({
      method: bound.route.method,
      url: bound.route.path.replaceAll(/\{(\w+)\}/g, ':$1'),
      handler: (request, reply) => serve(options, entry, request, reply),
    })
  }
  return {
    listen: (where) => app.listen(where),
    close: () => {
      const closed = app.close()
      in_progress.whenNone(() => app.server.closeAllConnections()) // those that never sent a request do not count as idle
      return closed
    },
    http: app.server,
  }

  function transportFailure(of: Surface, error: unknown): Failure {
    const code = (error as { code?: unknown }).code
    if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') return wrongMediaType(of)
    return asFailure(of, error)
  }

  async function serve(o: typeof options, entry: Entry<Deps, Ticket>, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const arrival: Arrival = {
      route: entry.route,
      request_id: request.id,
      now: o.clock.now(),
      params: request.params as Record<string, string>,
      url: request.url,
      headers: request.raw.headers,
    }
    const ending = observeEnd(o, entry.route, request, reply)
    let call: Call | null = null
    try {
      const who = entry.route.auth === 'none' ? null : await o.authenticate(arrival)
      ending.who = who
      if (who !== null) await o.rate?.(arrival, who)
      const ticket = (who === null ? undefined : await o.admit?.(arrival, who)) as Ticket
      ending.keep(ticket)
      call = await parse(o, entry, request, arrival, who, ending)
      const answer = (await replay(o, call, ticket)) ?? (await entry.handler(call, o.deps, ticket))
      return await send(entry, request, reply, answer)
    } catch (thrown) {
      if (reply.raw.headersSent || reply.raw.destroyed) return abandon(reply, thrown)
      const failure = asFailure(surface, thrown)
      const refused = entry.declared ? asFailure(surface, checkRefusal(entry.declared, failure)) : failure
      if (call?.idempotency && isDecided(surface, refused)) await keepRefusal(o, call, refused)
      return sendRefusal(o, entry.route, request, reply, refused)
    }
  }

  function abandon(reply: FastifyReply, thrown: unknown): FastifyReply {
    if (!reply.raw.destroyed) logger.error({ err: thrown, request_id: reply.request.id }, 'an answer broke off')
    reply.hijack()
    reply.raw.destroy()
    return reply
  }
}

/** Counts calls that have begun and not ended. */
function countCalls() {
  let count = 0
  let none: (() => void) | null = null
  return {
    begin: () => void count++,
    end: () => {
      count--
      if (count === 0) none?.()
    },
    whenNone(then: () => void) {
      none = then
      if (count === 0) then()
    },
  }
}

async function parse<Deps, Ticket>(
  options: ServerOptions<Deps, Ticket>,
  { route, checks }: Entry<Deps, Ticket>,
  request: FastifyRequest,
  arrival: Arrival,
  who: Who | null,
  ending: { signal(): AbortSignal },
): Promise<Call> {
  const body = await parseBody(options.surface, route, request)
  const query = declaredOnly(route, request.query as Record<string, unknown>)
  check(options.surface, checks, { params: request.params, query, body })
  const key = route.idempotent && options.idempotency ? idempotencyKey(arrival.headers) : null
  return {
    ...arrival,
    who: who as Call['who'],
    params: request.params,
    query: query,
    body: body,
    wait_seconds: route.waits ? waitSeconds(arrival.headers) : 0,
    idempotency:
      key !== null && options.idempotency
        ? { key, fingerprint: fingerprint(options.idempotency.secret, request.method, request.url, body) }
        : null,
    get signal() {
      return ending.signal()
    },
    body_stream: request.raw,
  }
}

/** Query parameters that a route does not declare are ignored (DECISIONS), so nothing behind the pipeline sees them. */
function declaredOnly(route: Route, query: Record<string, unknown>): Record<string, unknown> {
  const declared = Object.keys((route.query as { properties?: object } | undefined)?.properties ?? {})
  return Object.fromEntries(declared.filter((name) => query[name] !== undefined).map((name) => [name, query[name]]))
}

async function parseBody(surface: Surface, route: Route, request: FastifyRequest): Promise<unknown> {
  if (route.body === 'bytes' || route.method === 'GET') return undefined
  const bytes = await readBody(request.raw, route.body_bytes_max ?? LIMITS.json_body_bytes_max)
  const type = request.headers['content-type']
  const says_json = type !== undefined && /^application\/json\s*(;|$)/i.test(type.trim())
  if (bytes === null) {
    if (says_json) throw fail('bad_request', null, 'The content type says JSON, but the body is empty')
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

async function replay<Deps, Ticket>(options: ServerOptions<Deps, Ticket>, call: Call, ticket: Ticket): Promise<Reply | null> {
  return call.idempotency && options.idempotency ? options.idempotency.replay(call, options.deps, ticket) : null
}

/** A refusal that will be the same tomorrow. Refusals of the parser never get here: without a call there is no key. */
function isDecided(surface: Surface, failure: Failure): boolean {
  const { status, body } = refusal(surface, failure, '')
  return status < 500 && status !== 401 && !body.error.retryable && failure.code !== 'idempotency_mismatch'
}

async function keepRefusal<Deps, Ticket>(options: ServerOptions<Deps, Ticket>, call: Call, failure: Failure): Promise<void> {
  try {
    await options.idempotency?.keepRefusal(call, failure, options.deps)
  } catch (error) {
    // Not kept: a repeat decides again, which is all that an unkept refusal means.
    options.logger.warn({ err: error, request_id: call.request_id }, 'a refusal could not be kept for its idempotency key')
  }
}

async function send<Deps, Ticket>(
  entry: Entry<Deps, Ticket>,
  request: FastifyRequest,
  reply: FastifyReply,
  answer: Reply,
): Promise<FastifyReply> {
  if ('stream' in answer) {
    reply.raw.setHeader('x-request-id', request.id)
    await answer.stream(reply.raw)
    reply.hijack()
    return reply
  }
  if (entry.declared) checkAnswer(entry.declared, answer)
  reply.code(answer.status).header('x-request-id', request.id)
  if (answer.headers) reply.headers(answer.headers)
  if (answer.body === undefined) return reply.send()
  if (answer.body instanceof Uint8Array) return reply.send(answer.body)
  // Not compiled serializers: they drop what a schema does not name, and JSON.stringify is as fast for rows of this size.
  return reply.type('application/json; charset=utf-8').send(JSON.stringify(answer.body))
}

function sendRefusal<Deps, Ticket>(
  options: ServerOptions<Deps, Ticket>,
  route: Route | null,
  request: FastifyRequest,
  reply: FastifyReply,
  failure: Failure,
): FastifyReply {
  const { status, headers, body } = refusal(options.surface, failure, request.id)
  if (status >= 500) {
    options.logger.error(
      { err: failure.options.cause ?? failure, request_id: request.id, route: route?.id, code: failure.code },
      failure.message,
    )
  }
  // What is left of a body that is too large is not worth reading.
  if (status === 413) reply.header('connection', 'close')
  return reply
    .code(status)
    .headers(headers)
    .header('x-request-id', request.id)
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(body))
}

/** Everything that hangs on the end of an answer: the caller's going, the ticket, the log line and the measure. */
function observeEnd<Deps, Ticket>(options: ServerOptions<Deps, Ticket>, route: Route | null, request: FastifyRequest, reply: FastifyReply) {
  const started_ms = options.clock.monotonic_ms()
  let controller: AbortController | null = null
  let ended = false
  let ticket: unknown
  const dispose = (held: unknown) => {
    if (held !== null && typeof held === 'object' && Symbol.dispose in held) (held as Disposable)[Symbol.dispose]()
  }
  const ending = {
    who: null as Who | null,
    signal(): AbortSignal {
      controller ??= new AbortController()
      if (ended) controller.abort()
      return controller.signal
    },
    /** The caller may have gone while the ticket was made: then nobody else would end it. */
    keep(held: unknown) {
      if (ended) dispose(held)
      else ticket = held
    },
  }
  reply.raw.once('close', () => {
    ended = true
    if (!reply.raw.writableFinished) controller?.abort()
    dispose(ticket)
    const seconds = (options.clock.monotonic_ms() - started_ms) / 1000
    const status = reply.raw.headersSent ? reply.raw.statusCode : 499
    options.observe?.({ route, method: request.method, status, seconds })
    logEnd(options.logger, request, route, ending.who, status, seconds)
  })
  return ending
}

/** Reads that went well are many and say little: debug. No query, no header: they may carry what is nobody's business. */
function logEnd(logger: Logger, request: FastifyRequest, route: Route | null, who: Who | null, status: number, seconds: number): void {
  const level = request.method === 'GET' && status < 400 ? 'debug' : 'info'
  if (!logger.isLevelEnabled(level)) return
  const principal = who === null ? undefined : who.type === 'tool_token' ? who.principal_id : who.id
  const path = request.url.split('?', 1)[0]
  logger[level](
    { request_id: request.id, method: request.method, path, route: route?.id, status, ms: Math.round(seconds * 1e5) / 100, principal },
    'request',
  )
}
