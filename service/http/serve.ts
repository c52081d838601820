import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ServerResponse } from 'node:http'
import { dependsOnRole, type PrincipalAccess } from '../../contract/access.ts'
import type { Surface } from '../../contract/errors.ts'
import type { Route } from '../../contract/route.ts'
import { fail, type Failure } from '../lib/fail.ts'
import { refuseKind, refuseRole, refuseStale, refuseToolless } from './access.ts'
import { checkRefusal, declaredOf, type Declared } from './answers.ts'
import type { Arrival, Bound, Call, Reply, Who } from './call.ts'
import { checksOf, propertiesOf } from './checks.ts'
import { coercionsOf } from './coerce.ts'
import { Ending, type Endings } from './ending.ts'
import { asFailure, refusal } from './envelope.ts'
import type { LogShare } from './log-share.ts'
import { parse, type Parser } from './parse.ts'
import type { ServerOptions } from './pipeline.ts'
import { logRefusal, send, sendRefusal } from './respond.ts'
import type { WebSocketEnd, WebSockets } from './websocket.ts'

export interface Serving<Deps, Ticket> {
  options: ServerOptions<Deps, Ticket> & { log_share: LogShare }
  websockets: WebSockets
  endings: Endings
}

/** A route, its handler, and the checks that were compiled for it. */
export interface Entry<Deps, Ticket> extends Bound<Deps, Ticket> {
  parser: Parser
  declared: Declared | null
}

export function entryOf<Deps, Ticket>(options: ServerOptions<Deps, Ticket>, bound: Bound<Deps, Ticket>): Entry<Deps, Ticket> {
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

export async function serve<Deps, Ticket>(
  serving: Serving<Deps, Ticket>,
  entry: Entry<Deps, Ticket>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const ending = new Ending(serving.endings, entry.route, request, reply)
  return serveUntil(ending, serving, entry, request, reply).finally(() => ending.served())
}

async function serveUntil<Deps, Ticket>(
  ending: Ending,
  serving: Serving<Deps, Ticket>,
  entry: Entry<Deps, Ticket>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const o = serving.options
  try {
    const { call, ticket } = await receive(serving, entry, request, ending)
    const repeated = call.idempotency && o.idempotency ? await o.idempotency.replay(call, o.deps, ticket) : null
    const answer = repeated ?? (await answerOf(serving, entry, call, ticket))
    if (entry.route.revokes !== undefined && o.held) await o.held(call, entry.route.revokes)
    if (o.reader_stalled_ms !== undefined) endStalled(reply.raw, o.reader_stalled_ms)
    return await send(entry.declared, request, reply, answer)
  } catch (thrown) {
    if (reply.raw.headersSent || reply.raw.destroyed) return abandon(serving, reply, thrown)
    const failure = declaredOnly(o.surface, entry, asFailure(o.surface, thrown))
    const said = ending.who !== null && o.refusalHeaders ? await o.refusalHeaders(entry.route, ending.who) : {}
    reply.headers(said)
    return sendRefusal(o, entry.route, request, reply, failure)
  }
}

/** The order of these lines defines which refusal is sent if several apply. */
async function receive<Deps, Ticket>(
  { options: o }: Serving<Deps, Ticket>,
  entry: Entry<Deps, Ticket>,
  request: FastifyRequest,
  ending: Ending,
): Promise<{ call: Call; ticket: Ticket }> {
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

function arrivalOf(route: Route, request: FastifyRequest, now: Date): Arrival {
  const params = request.params as Record<string, string>
  const address = request.raw.socket.remoteAddress ?? ''
  return { route, request_id: request.id, now, params, address, url: request.url, headers: request.raw.headers }
}

/** Refusals that need the parsed call: tools, role and step-up. */
async function refuseForbidden<Deps, Ticket>(access: PrincipalAccess, o: ServerOptions<Deps, Ticket>, call: Call, who: Who): Promise<void> {
  if (who.type === 'api_key') return refuseToolless(access, who, call.body)
  if (who.type !== 'user') return
  const role = o.roleOf && dependsOnRole(access) ? await o.roleOf(call, who) : null
  if (role !== null) refuseRole(access, role, call.body)
  refuseStale(access, who.session.stepped_up_at, call.now)
}

/** Runs the handler. A refusal of a call with a key is stored before it is sent, so that a repeat gets the same one. */
async function answerOf<Deps, Ticket>(
  { options: o }: Serving<Deps, Ticket>,
  entry: Entry<Deps, Ticket>,
  call: Call,
  ticket: Ticket,
): Promise<Reply> {
  try {
    return await entry.handler(call, o.deps, ticket)
  } catch (thrown) {
    const refused = declaredOnly(o.surface, entry, asFailure(o.surface, thrown))
    const is_kept = call.idempotency !== null && isDecided(o.surface, refused)
    const other = is_kept && o.idempotency ? await o.idempotency.keepRefusal(call, refused, o.deps) : null
    if (other === null) throw refused
    return other
  }
}

/** Serves a WebSocket. The handshake is completed first, so that refusals are sent over the socket. */
export async function serveWebSocket<Deps, Ticket>(
  serving: Serving<Deps, Ticket>,
  entry: Entry<Deps, Ticket>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { options: o, websockets, endings } = serving
  if (!websockets.upgraded(request.raw)) {
    return serve(serving, { ...entry, handler: () => Promise.reject(notAnUpgrade()) }, request, reply)
  }
  const ending = new Ending(endings, entry.route, request, reply)
  reply.hijack()
  const socket = websockets.accept(request)
  if (socket === null) {
    ending.served()
    return reply
  }
  let goodbye: WebSocketEnd
  try {
    const { call, ticket } = await receive(serving, entry, request, ending)
    const answer = await entry.handler(call, o.deps, ticket)
    if (!('websocket' in answer)) throw new Error(`${entry.route.id} does not answer with a WebSocket`)
    ending.status = SWITCHED
    goodbye = await answer.websocket(socket)
  } catch (thrown) {
    goodbye = { failure: asFailure(o.surface, thrown) }
  }
  ending.served()
  if ('failure' in goodbye) {
    const failure = declaredOnly(o.surface, entry, goodbye.failure)
    goodbye = { ...goodbye, failure }
    ending.status = logRefusal(o, entry.route, request.id, failure)
  }
  websockets.leave(socket, goodbye, request.id)
  return reply
}

function declaredOnly<Deps, Ticket>(surface: Surface, { declared }: Entry<Deps, Ticket>, failure: Failure): Failure {
  return declared ? asFailure(surface, checkRefusal(declared, failure)) : failure
}

function abandon<Deps, Ticket>({ options: { logger } }: Serving<Deps, Ticket>, reply: FastifyReply, thrown: unknown): FastifyReply {
  if (!reply.raw.destroyed) logger.error({ err: thrown, request_id: reply.request.id }, 'an answer ended early')
  reply.hijack()
  reply.raw.destroy()
  return reply
}

/** Ends a connection whose client does not read, because its answer occupies memory. A connection without waiting data may be silent. */
function endStalled(response: ServerResponse, stalled_ms: number): void {
  response.setTimeout(stalled_ms, () => {
    if (response.writableLength > 0) response.destroy()
  })
}

const OF_THE_MOMENT: ReadonlySet<number> = new Set([401, 402])
const NOT_KEPT: ReadonlySet<string> = new Set(['quota_exceeded', 'idempotency_mismatch'])

const SWITCHED = 101

function notAnUpgrade(): Failure {
  return fail('bad_request', null, 'This route is a WebSocket: ask for an upgrade')
}

/**
 * @returns true if this refusal may be replayed for the same Idempotency-Key, so it depends on the request alone. A plan's refusal does
 * not: the customer may pay a minute later.
 * Refusals of the parser are never checked here, because without a call there is no key.
 */
function isDecided(surface: Surface, failure: Failure): boolean {
  const { status, body } = refusal(surface, failure, '')
  return status < 500 && !OF_THE_MOMENT.has(status) && !body.error.retryable && !NOT_KEPT.has(failure.code)
}
