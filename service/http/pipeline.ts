import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import type { Server } from 'node:http'
import type { Logger } from 'pino'
import type { Surface } from '../../contract/errors.ts'
import type { Route } from '../../contract/route.ts'
import type { Clock } from '../lib/clock.ts'
import { fail, type Failure } from '../lib/fail.ts'
import type { Ids } from '../lib/ids.ts'
import { checkRefusal, compileDeclared, type Declared } from './answers.ts'
import type { Arrival, Bound, Call, Reply, Who } from './call.ts'
import { compileChecks } from './checks.ts'
import { answerBrokenRequest } from './client-error.ts'
import { CallCount, Ending, type Endings, type Observation } from './ending.ts'
import { asFailure, refusal } from './envelope.ts'
import { requestId } from './headers.ts'
import { parse, wrongMediaType, type Parser } from './parse.ts'
import { send, sendRefusal } from './respond.ts'

export type { Observation } from './ending.ts'

/** What the server keeps of (I) calls, so that a repeat finds it. */
export interface Idempotency<Deps, Ticket> {
  /** Keys the digests of bodies. */
  secret: Buffer
  /** The answer of an earlier call with this key, made afresh; null when there was none. Refuses a key of another request. */
  replay(call: Call, deps: Deps, ticket: Ticket): Promise<Reply | null>
  /** Keeps a decided refusal. Changes are kept by the transaction that makes them, not here. */
  keepRefusal(call: Call, failure: Failure, deps: Deps): Promise<void>
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
  parser: Parser
  declared: Declared | null
}

/** Serves routes: the one way from a request to its answer, on both surfaces. */
export function createServer<Deps, Ticket = undefined>(options: ServerOptions<Deps, Ticket>): ServerHandle {
  const { surface, clock, ids, logger } = options
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
  const in_progress = new CallCount()
  const endings: Endings = { clock, logger, in_progress, ...(options.observe ? { observe: options.observe } : {}) }
  // Bodies are read by serve() below, after it is known who asks.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.setErrorHandler((error, request, reply) => sendRefusal(options, null, request, reply, transportFailure(surface, error)))
  app.setNotFoundHandler((request, reply) => {
    new Ending(endings, null, request, reply)
    sendRefusal(options, null, request, reply, fail('not_found', null, 'There is no such route'))
  })
  for (const bound of options.routes) {
    const entry = entryOf(options, bound)
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

  /** The order of these lines is the order in which refusals win. */
  async function serve(o: typeof options, entry: Entry<Deps, Ticket>, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const ending = new Ending(endings, entry.route, request, reply)
    let call: Call | null = null
    try {
      const arrival = arrivalOf(entry.route, request, o.clock.now())
      const who = entry.route.auth === 'none' ? null : await o.authenticate(arrival)
      ending.who = who
      if (who !== null && o.rate) await o.rate(arrival, who)
      const ticket = (who !== null && o.admit ? await o.admit(arrival, who) : undefined) as Ticket
      ending.keep(ticket)
      call = await parse(entry.parser, request, arrival, who, ending)
      const repeated = call.idempotency && o.idempotency ? await o.idempotency.replay(call, o.deps, ticket) : null
      return await send(entry.declared, request, reply, repeated ?? (await entry.handler(call, o.deps, ticket)))
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

function entryOf<Deps, Ticket>(options: ServerOptions<Deps, Ticket>, bound: Bound<Deps, Ticket>): Entry<Deps, Ticket> {
  const { route } = bound
  return {
    ...bound,
    parser: {
      surface: options.surface,
      checks: compileChecks(route),
      declared_query: Object.keys((route.query as { properties?: object } | undefined)?.properties ?? {}),
      idempotency_secret: options.idempotency?.secret ?? null,
    },
    declared: options.validate_answers ? compileDeclared(route) : null,
  }
}

function arrivalOf(route: Route, request: FastifyRequest, now: Date): Arrival {
  const params = request.params as Record<string, string>
  return { route, request_id: request.id, now, params, url: request.url, headers: request.raw.headers }
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
