import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { maxHeaderSize, type Server } from 'node:http'
import type { Logger } from 'pino'
import type { Role } from '../../contract/access.ts'
import type { Surface } from '../../contract/errors.ts'
import { pathsOf, type Route } from '../../contract/route.ts'
import { logAcceptErrors } from '../lib/accept-errors.ts'
import type { Clock } from '../lib/clock.ts'
import { fail, type Failure } from '../lib/fail.ts'
import type { Ids } from '../lib/ids.ts'
import type { Arrival, Bound, Call, PersonPrincipal, Reply, Who } from './call.ts'
import { answerBrokenRequest } from './client-error.ts'
import { createCors, type Cors } from './cors.ts'
import { EDGE_REQUEST_ID, EDGE_RETRY_SECONDS, type Edge } from './edge.ts'
import { CallCount, Ending, type Observation } from './ending.ts'
import { asFailure } from './envelope.ts'
import { type Fingerprints, requestId } from './headers.ts'
import { createLogShare } from './log-share.ts'
import { methodsOf } from './methods.ts'
import { NO_STORE, sendRefusal } from './respond.ts'
import { entryOf, serve, serveWebSocket, type Serving } from './serve.ts'
import { serveFiles, type StaticFile } from './static-files.ts'
import { createWebSockets, type WebSockets } from './websocket.ts'

export type { Observation } from './ending.ts'

/** Storage of the outcomes of (I) calls, for repeats. */
export interface Idempotency<Deps, Ticket> {
  keys: Fingerprints
  /** @returns the answer of an earlier call with this key; null: none. Refuses a key that was used for another request. */
  replay(call: Call, deps: Deps, ticket: Ticket): Promise<Reply | null>
  /**
   * Stores a refusal for repeats. Successful changes are stored by their own transaction.
   * @returns null if the refusal was stored; else the outcome that a concurrent call with the key stored first. It is the answer of this
   * call too.
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
  /** Limits all requests together; absent: no limit. */
  edge?: Edge
  /** Origins whose pages may read answers, in the form that browsers send; absent or empty: no CORS headers. */
  cors_origins?: readonly string[]
  /** Authenticates the caller; throws 401, or 403 for a caller without any rights. Not called on public routes. */
  authenticate(arrival: Arrival): Promise<Who>
  /**
   * Role of a person in the organization of the target; null: the call has no target. Refuses a target whose existence the person may not
   * see.
   * Called only for routes that depend on the role.
   */
  roleOf?(call: Call, who: PersonPrincipal): Promise<Role | null>
  rate?(arrival: Arrival, who: Who): Promise<void>
  /** Refuses calls before the parser does. A disposable ticket is disposed when the answer and the handler have ended. */
  admit?(arrival: Arrival, who: Who): Promise<Ticket>
  /** Additional headers of a refusal of an authenticated caller. Never fails. */
  refusalHeaders?(route: Route, who: Who): Promise<Record<string, string>>
  idempotency?: Idempotency<Deps, Ticket>
  /** Resolves when a revocation is in force in all processes. Called for routes that revoke, also for a replay. */
  held?(call: Call, revokes: NonNullable<Route['revokes']>): Promise<void>
  files?: ReadonlyMap<string, StaticFile>
  /** For tests and development: refuses to send undeclared answers. */
  validate_answers?: boolean
  observe?(seen: Observation): void
  /** Closes a connection whose client reads nothing of a waiting answer for this time; absent: never. */
  reader_stalled_ms?: number
}

export interface ServerHandle {
  /** @returns the address: `http://127.0.0.1:1234`, or the path of the socket */
  listen(where: { host: string; port: number } | { path: string }): Promise<string>
  /** Accepts no more connections, waits for running calls, and closes idle connections. */
  close(): Promise<void>
  breakOff(): void
  http: Server
}

/** Methods of the routes at a URL, for refusals and preflights. */
type AllowedMethods = (url: string) => string[]

/** Serves routes. Both surfaces use this same path from request to answer (`serve.ts`). */
export function createServer<Deps, Ticket = undefined>(given: ServerOptions<Deps, Ticket>): ServerHandle {
  const { surface, clock, ids, logger } = given
  const log_share = createLogShare(clock)
  const options = { ...given, log_share }
  const routes = given.routes.map(({ route }) => route)
  const allowed = methodsOf(routes, surface)
  const websockets = createWebSockets(surface, routes, ids)
  const in_progress = new CallCount()
  const endings = { clock, logger, log_share, in_progress, ...(given.observe ? { observe: given.observe } : {}) }
  const serving: Serving<Deps, Ticket> = { options, websockets, endings }
  const app = openApp(serving)
  answerUnusualRequests(app, serving)
  answerErrors(app, serving, allowed)
  const cors = given.cors_origins?.length ? createCors(given.cors_origins, routes) : null
  limitAll(app, serving, cors)
  if (cors !== null) answerPreflights(app, serving, cors, allowed)
  websockets.serve(app)
  if (given.files) serveFiles(app, given.files)
  addRoutes(app, serving)
  return handleOf(app, websockets, in_progress)
}

function openApp<Deps, Ticket>({ options, websockets }: Serving<Deps, Ticket>): FastifyInstance {
  const { surface, ids } = options
  return Fastify({
    logger: false,
    exposeHeadRoutes: surface === 'app', // the gateway's reads wake machines and stream: HEAD has no meaning there
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: maxHeaderSize }, // so that any length that the HTTP parser accepts reaches the check of the parameter
    requestTimeout: 120_000,
    // Other upgrade requests are answered as plain requests (RFC 9110, 7.8).
    http: { shouldUpgradeCallback: (request) => websockets.wants(request) },
    genReqId: (raw) => requestId(raw.headers, () => ids.next()),
    clientErrorHandler: (error, socket) => answerBrokenRequest(surface, ids, error, socket),
    frameworkErrors: (_error, request, reply) => {
      sendRefusal(options, null, request, reply, fail('bad_request', null, 'The address of the request is malformed'))
    },
  })
}

function answerUnusualRequests<Deps, Ticket>({ server }: FastifyInstance, { options }: Serving<Deps, Ticket>): void {
  const { surface, ids, logger } = options
  logAcceptErrors(server, logger)
  // CONNECT requests a tunnel, which is refused. Without a listener Node would close the connection without an answer.
  server.on('connect', (_request, socket) => answerBrokenRequest(surface, ids, {}, socket))
  // An unknown Expect header is ignored (RFC 9110, 10.1.1). Node itself would answer 417 without an envelope.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
}

function answerErrors<Deps, Ticket>(app: FastifyInstance, serving: Serving<Deps, Ticket>, allowed: AllowedMethods): void {
  const { options } = serving
  // Bodies are not parsed here, because serve() reads them after authentication.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.setErrorHandler((error, request, reply) => {
    if (isContentTypeError(error)) return answerNotFound(serving, allowed, request, reply)
    sendRefusal(options, null, request, reply, asFailure(options.surface, error))
  })
  app.setNotFoundHandler((request, reply) => answerNotFound(serving, allowed, request, reply))
}

function answerNotFound<Deps, Ticket>(
  { options, endings }: Serving<Deps, Ticket>,
  allowed: AllowedMethods,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  new Ending(endings, null, request, reply)
  const methods = allowed(request.url)
  if (methods.length > 0) reply.header('allow', methods.join(', '))
  const message = methods.length === 0 ? 'There is no such route' : `There is no such route: this path takes ${methods.join(', ')}`
  sendRefusal(options, null, request, reply, fail('not_found', null, message))
}

/** Refuses requests above the limit of all callers together, before they are read. */
function limitAll<Deps, Ticket>(app: FastifyInstance, { options }: Serving<Deps, Ticket>, cors: Cors | null): void {
  app.addHook('onRequest', (request, reply, next) => {
    cors?.mark(request.raw, reply.raw)
    if (!options.edge || options.edge.take()) return next()
    request.id = EDGE_REQUEST_ID
    options.observe?.({ route: null, method: request.method, status: 429, seconds: 0 })
    sendRefusal(options, null, request, reply, fail('rate_limited', null, 'Too many requests', { retry_after_seconds: EDGE_RETRY_SECONDS }))
  })
}

function answerPreflights<Deps, Ticket>(
  app: FastifyInstance,
  { endings }: Serving<Deps, Ticket>,
  cors: Cors,
  allowed: AllowedMethods,
): void {
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

function addRoutes<Deps, Ticket>(app: FastifyInstance, serving: Serving<Deps, Ticket>): void {
  const { options } = serving
  for (const bound of options.routes) {
    const { route } = bound
    const entry = entryOf(options, bound)
    const serveCall = route.websocket ? serveWebSocket : serve
    const handler = (request: FastifyRequest, reply: FastifyReply) => serveCall(serving, entry, request, reply)
    for (const { path } of pathsOf(route)) {
      app.route({
        method: route.method,
        url: path.replaceAll(/\{(\w+)\}/g, ':$1'),
        handler,
        // Content type errors are refused where the body is read, after authentication.
        // oxlint-disable-next-line typescript/no-misused-promises -- the framework waits for it, its type does not say so
        errorHandler: (error, request, reply) =>
          isContentTypeError(error)
            ? handler(request, reply)
            : sendRefusal(options, route, request, reply, asFailure(options.surface, error)),
      })
    }
  }
}

function handleOf(app: FastifyInstance, websockets: WebSockets, in_progress: CallCount): ServerHandle {
  return {
    listen: (where) => app.listen(where),
    close: () => {
      const closed = app.close()
      in_progress.whenNone(() => app.server.closeAllConnections()) // because connections that never sent a request do not count as idle
      return closed
    },
    breakOff() {
      app.server.closeAllConnections()
      websockets.terminate() // the server does not track upgraded connections
    },
    http: app.server,
  }
}

/** Fastify checks content types before the handler: they must be well-formed, and a QUERY must have one. */
function isContentTypeError(error: unknown): boolean {
  const { code } = error as { code?: unknown }
  return code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE' || code === 'FST_ERR_ROUTE_MISSING_CONTENT_TYPE'
}
