import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import { maxHeaderSize, type Server, type ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { Surface } from '../../contract/errors.ts'
import { dependsOnRole, type PrincipalAccess, type Role } from '../../contract/access.ts'
import { pathsOf, type Route } from '../../contract/route.ts'
import type { Clock } from '../lib/clock.ts'
import { fail, type Failure } from '../lib/fail.ts'
import type { Ids } from '../lib/ids.ts'
import { logAcceptErrors } from '../lib/accept-errors.ts'
import { methodsOf } from './methods.ts'
import { refuseKind, refuseRole, refuseStale, refuseToolless } from './access.ts'
import { checkRefusal, declaredOf, type Declared } from './answers.ts'
import type { Arrival, Bound, Call, PersonPrincipal, Reply, Who } from './call.ts'
import { checksOf, propertiesOf } from './checks.ts'
import { answerBrokenRequest } from './client-error.ts'
import { EDGE_REQUEST_ID, EDGE_RETRY_SECONDS, type Edge } from './edge.ts'
import { coercionsOf } from './coerce.ts'
import { createCors } from './cors.ts'
import { CallCount, Ending, type Endings, type Observation } from './ending.ts'
import { asFailure, refusal } from './envelope.ts'
import { type Fingerprints, requestId } from './headers.ts'
import { createLogShare } from './log-share.ts'
import { parse, type Parser } from './parse.ts'
import { logRefusal, NO_STORE, send, sendRefusal } from './respond.ts'
import { serveFiles, type StaticFile } from './static-files.ts'
import { createWebSockets, type WebSocketEnd } from './websocket.ts'

export type { Observation } from './ending.ts'

/** Storage of the outcomes of (I) calls, for repeats. */
export interface Idempotency<Deps, Ticket> {
  keys: Fingerprints
  /** The answer of an earlier call with this key; null: none. Refuses a key that was used for another request. */
  replay(call: Call, deps: Deps, ticket: Ticket): Promise<Reply | null>
  /**
   * Keeps a decided refusal. Successful changes are kept by their own transaction instead.
   * @returns null if it was kept; else the outcome that a concurrent call with the key kept first, which is the answer of this call too
   */
  keepRefusal(call: Call, failure: Failure, deps: Deps): Promise<Reply | null>
}

export interface ServerOptions<Deps, Ticket> {
  surface: Surface
  routes: readonly Bound<Deps, Ticket>[]
  deps: Deps
  clock: Clock
  ids: Ids
  logger: Logger
  /** Bounds all requests together; absent: unbounded. */
  edge?: Edge
  /** Origins whose pages may read answers, as browsers send them; absent or empty: no CORS headers. */
  cors_origins?: readonly string[]
  /** Authenticates the caller; throws 401, or 403 for a caller without any rights. Not called on public routes. */
  authenticate(arrival: Arrival): Promise<Who>
  /**
   * Role of a person in the organization of the target; null: the call has no target. Refuses a target that the person may not know of.
   * Called only for routes that depend on the role.
   */
  roleOf?(call: Call, who: PersonPrincipal): Promise<Role | null>
  rate?(arrival: Arrival, who: Who): Promise<void>
  /** Refusals that come before those of the parser. A disposable ticket is disposed when the answer and the handler have ended. */
  admit?(arrival: Arrival, who: Who): Promise<Ticket>
  /** Additional headers of a refusal of an authenticated caller. Never fails. */
  refusalHeaders?(route: Route, who: Who): Promise<Record<string, string>>
  idempotency?: Idempotency<Deps, Ticket>
  /** Resolves when a revocation holds everywhere. Called for routes that revoke, also for a replay. */
  held?(call: Call, revokes: NonNullable<Route['revokes']>): Promise<void>
  files?: ReadonlyMap<string, StaticFile>
  /** For tests and development: refuses to send undeclared answers. */
  validate_answers?: boolean
  observe?(seen: Observation): void
  /** Closes a connection that takes nothing of a waiting answer for this time; absent: never. */
  reader_stalled_ms?: number
}

export interface ServerHandle {
  /** @returns the address: `http://127.0.0.1:1234`, or the path of the socket */
  listen(where: { host: string; port: number } | { path: string }): Promise<string>
  /** Stops accepting, lets running calls end, and closes idle connections. */
  close(): Promise<void>
  breakOff(): void
  http: Server
}

interface Entry<Deps, Ticket> extends Bound<Deps, Ticket> {
  parser: Parser
  declared: Declared | null
}

/** Serves routes: both surfaces use this one path from request to answer. */
export function createServer<Deps, Ticket = undefined>(given: ServerOptions<Deps, Ticket>): ServerHandle {
  const log_share = createLogShare(given.clock)
  const options = { ...given, log_share }
  const { surface, clock, ids, logger } = options
  const routes = options.routes.map(({ route }) => route)
  const websockets = createWebSockets(surface, routes, ids)
  const app = Fastify({
    logger: false,
    exposeHeadRoutes: surface === 'app', // the gateway's reads wake machines and stream: HEAD has no meaning there
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: maxHeaderSize }, // any length that the HTTP parser accepts reaches the check of the parameter
    requestTimeout: 120_000,
    // Other upgrade requests are answered as plain requests (RFC 9110, 7.8).
    http: { shouldUpgradeCallback: (request) => websockets.wants(request) },
    genReqId: (raw) => requestId(raw.headers, () => ids.next()),
    clientErrorHandler: (error, socket) => answerBrokenRequest(surface, ids, error, socket),
    frameworkErrors: (_error, request, reply) => {
      sendRefusal(options, null, request, reply, fail('bad_request', null, 'The address of the request is malformed'))
    },
  })
  logAcceptErrors(app.server, logger)
  // CONNECT asks for a tunnel. Without a listener Node would close the connection without an answer.
  app.server.on('connect', (_request, socket) => answerBrokenRequest(surface, ids, {}, socket))
  // An unknown Expect header may be ignored (RFC 9110, 10.1.1); Node would answer a bare 417.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  const allowed = methodsOf(routes, surface)
  const in_progress = new CallCount()
  const endings: Endings = { clock, logger, log_share, in_progress, ...(options.observe ? { observe: options.observe } : {}) }
  // serve() reads bodies itself, after authentication.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.setErrorHandler((error, request, reply) => {
    if (isContentTypeError(error)) return answerNotFound(request, reply)
    sendRefusal(options, null, request, reply, asFailure(surface, error))
  })
  app.setNotFoundHandler(answerNotFound)
  const cors = options.cors_origins?.length ? createCors(options.cors_origins, routes) : null
  app.addHook('onRequest', (request, reply, next) => {
    cors?.mark(request.raw, reply.raw)
    if (!options.edge || options.edge.take()) return next()
    request.id = EDGE_REQUEST_ID
    options.observe?.({ route: null, method: request.method, status: 429, seconds: 0 })
    sendRefusal(options, null, request, reply, fail('rate_limited', null, 'Too many requests', { retry_after_seconds: EDGE_RETRY_SECONDS }))
  })
  if (cors !== null) {
    app.addHook('onRequest', (request, reply, next) => {
      const told = cors.preflight(request.raw, allowed(request.url))
      if (told === null) return next()
      new Ending(endings, null, request, reply)
      reply
        .code(204)
        .headers({ ...told, 'x-request-id': request.id, 'cache-control': NO_STORE })
        .send()
    })
  }
  websockets.serve(app)
  if (options.files) serveFiles(app, options.files)
  for (const bound of options.routes) {
    const entry = entryOf(options, bound)
    const handler = (request: FastifyRequest, reply: FastifyReply) =>
      (bound.route.websocket ? serveWebSocket : serve)(options, entry, request, reply)
    for (const { path } of pathsOf(bound.route)) {
      app.route({
        method: bound.route.method,
        url: path.replaceAll(/\{(\w+)\}/g, ':$1'),
        handler,
        // Content type errors are judged where the body is read, after authentication.
        // oxlint-disable-next-line typescript/no-misused-promises -- the framework waits for it, its type does not say so
        errorHandler: (error, request, reply) =>
          isContentTypeError(error)
            ? handler(request, reply)
            : sendRefusal(options, bound.route, request, reply, asFailure(surface, error)),
      })
    }
  }
  return {
    listen: (where) => app.listen(where),
    close: () => {
      const closed = app.close()
      in_progress.whenNone(() => app.server.closeAllConnections()) // connections that never sent a request do not count as idle
      return closed
    },
    breakOff() {
      app.server.closeAllConnections()
      websockets.terminate() // the server does not track upgraded connections
    },
    http: app.server,
  }

  function answerNotFound(request: FastifyRequest, reply: FastifyReply): void {
    new Ending(endings, null, request, reply)
    const methods = allowed(request.url)
    if (methods.length > 0) reply.header('allow', methods.join(', '))
    const message = methods.length === 0 ? 'There is no such route' : `There is no such route: this path takes ${methods.join(', ')}`
    sendRefusal(options, null, request, reply, fail('not_found', null, message))
  }

  /** The order of these lines is the order in which refusals win. */
  async function receive(o: typeof options, entry: Entry<Deps, Ticket>, request: FastifyRequest, ending: Ending) {
    const arrival = arrivalOf(entry.route, request, o.clock.now())
    const { access } = entry.route
    const who = access.kind === 'anyone' ? null : await o.authenticate(arrival)
    ending.who = who
    if (who !== null) refuseKind(access, who)
    if (who !== null && o.rate) await o.rate(arrival, who)
    const ticket = (who !== null && o.admit ? await o.admit(arrival, who) : undefined) as Ticket
    ending.keep(ticket)
    const call = await parse(entry.parser, request, arrival, who, ending)
    if (access.kind === 'principal' && who !== null) await refuseForbidden(access, o, call, who)
    return { call, ticket }
  }

  async function serve(o: typeof options, entry: Entry<Deps, Ticket>, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const ending = new Ending(endings, entry.route, request, reply)
    return serveUntil(ending, o, entry, request, reply).finally(() => ending.served())
  }

  async function serveUntil(ending: Ending, o: typeof options, entry: Entry<Deps, Ticket>, request: FastifyRequest, reply: FastifyReply) {
    try {
      const { call, ticket } = await receive(o, entry, request, ending)
      const repeated = call.idempotency && o.idempotency ? await o.idempotency.replay(call, o.deps, ticket) : null
      const answer = repeated ?? (await answerOf(o, entry, call, ticket))
      if (entry.route.revokes !== undefined && o.held) await o.held(call, entry.route.revokes)
      if (o.reader_stalled_ms !== undefined) endStalled(reply.raw, o.reader_stalled_ms)
      return await send(entry.declared, request, reply, answer)
    } catch (thrown) {
      if (reply.raw.headersSent || reply.raw.destroyed) return abandon(reply, thrown)
      const failure = declaredOnly(entry, asFailure(surface, thrown))
      const said = ending.who !== null && o.refusalHeaders ? await o.refusalHeaders(entry.route, ending.who) : {}
      reply.headers(said)
      return sendRefusal(o, entry.route, request, reply, failure)
    }
  }

  /** Runs the handler. A refusal of a call with a key is sent only after it is kept, so that a repeat gets the same one. */
  async function answerOf(o: typeof options, entry: Entry<Deps, Ticket>, call: Call, ticket: Ticket): Promise<Reply> {
    try {
      return await entry.handler(call, o.deps, ticket)
    } catch (thrown) {
      const refused = declaredOnly(entry, asFailure(surface, thrown))
      const is_kept = call.idempotency !== null && isDecided(surface, refused)
      const other = is_kept && o.idempotency ? await o.idempotency.keepRefusal(call, refused, o.deps) : null
      if (other === null) throw refused
      return other
    }
  }

  /** Serves a WebSocket. The handshake comes first, so that refusals are sent over the socket. */
  async function serveWebSocket(o: typeof options, entry: Entry<Deps, Ticket>, request: FastifyRequest, reply: FastifyReply) {
    if (!websockets.upgraded(request.raw)) return serve(o, { ...entry, handler: () => Promise.reject(notAnUpgrade()) }, request, reply)
    const ending = new Ending(endings, entry.route, request, reply)
    reply.hijack()
    const socket = websockets.accept(request)
    if (socket === null) {
      ending.served()
      return reply
    }
    let goodbye: WebSocketEnd
    try {
      const { call, ticket } = await receive(o, entry, request, ending)
      const answer = await entry.handler(call, o.deps, ticket)
      if (!('websocket' in answer)) throw new Error(`${entry.route.id} does not answer with a WebSocket`)
      ending.status = SWITCHED
      goodbye = await answer.websocket(socket)
    } catch (thrown) {
      goodbye = { failure: asFailure(surface, thrown) }
    }
    ending.served()
    if ('failure' in goodbye) {
      const failure = declaredOnly(entry, goodbye.failure)
      goodbye = { ...goodbye, failure }
      ending.status = logRefusal(o, entry.route, request.id, failure)
    }
    websockets.leave(socket, goodbye, request.id)
    return reply
  }

  function declaredOnly(entry: Entry<Deps, Ticket>, failure: Failure): Failure {
    return entry.declared ? asFailure(surface, checkRefusal(entry.declared, failure)) : failure
  }

  function abandon(reply: FastifyReply, thrown: unknown): FastifyReply {
    if (!reply.raw.destroyed) logger.error({ err: thrown, request_id: reply.request.id }, 'an answer broke off')
    reply.hijack()
    reply.raw.destroy()
    return reply
  }
}

/** Refusals that need the parsed call: tools, role and step-up. */
async function refuseForbidden<Deps, Ticket>(access: PrincipalAccess, o: ServerOptions<Deps, Ticket>, call: Call, who: Who): Promise<void> {
  if (who.type === 'api_key') return refuseToolless(access, who, call.body)
  if (who.type !== 'user') return
  const role = o.roleOf && dependsOnRole(access) ? await o.roleOf(call, who) : null
  if (role !== null) refuseRole(access, role, call.body)
  refuseStale(access, who.session.stepped_up_at, call.now)
}

function entryOf<Deps, Ticket>(options: ServerOptions<Deps, Ticket>, bound: Bound<Deps, Ticket>): Entry<Deps, Ticket> {
  const { route } = bound
  if (route.access.kind === 'principal' && route.access.within !== 'self' && dependsOnRole(route.access) && options.roleOf === undefined) {
    throw new Error(`${route.id} asks for a role, and nobody here knows any`)
  }
  return {
    ...bound,
    parser: {
      surface: options.surface,
      checks: checksOf(route),
      coercions: { params: coercionsOf(route.params), query: coercionsOf(route.query) },
      header_names: Object.keys(propertiesOf(route.headers)),
      fingerprints: options.idempotency?.keys ?? null,
    },
    declared: options.validate_answers ? declaredOf(route) : null,
  }
}

/** Ends a connection whose reader takes nothing: its answer stays in memory. A connection without waiting data may stay silent. */
function endStalled(response: ServerResponse, stalled_ms: number): void {
  response.setTimeout(stalled_ms, () => {
    if (response.writableLength > 0) response.destroy()
  })
}

/** Fastify checks content types before the handler: they must be well-formed, and a QUERY must have one. */
function isContentTypeError(error: unknown): boolean {
  const { code } = error as { code?: unknown }
  return code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE' || code === 'FST_ERR_ROUTE_MISSING_CONTENT_TYPE'
}

const OF_THE_MOMENT: ReadonlySet<number> = new Set([401, 402])
const NOT_KEPT: ReadonlySet<string> = new Set(['quota_exceeded', 'idempotency_mismatch'])

const SWITCHED = 101

function notAnUpgrade(): Failure {
  return fail('bad_request', null, 'This route is a WebSocket: ask for an upgrade')
}

function arrivalOf(route: Route, request: FastifyRequest, now: Date): Arrival {
  const params = request.params as Record<string, string>
  const address = request.raw.socket.remoteAddress ?? ''
  return { route, request_id: request.id, now, params, address, url: request.url, headers: request.raw.headers }
}

/**
 * Returns true if this refusal may be replayed for the same Idempotency-Key: it must depend on the request alone. A plan's refusal may be
 * paid for a minute later. Refusals of the parser do not get here: without a call there is no key.
 */
function isDecided(surface: Surface, failure: Failure): boolean {
  const { status, body } = refusal(surface, failure, '')
  return status < 500 && !OF_THE_MOMENT.has(status) && !body.error.retryable && !NOT_KEPT.has(failure.code)
}
