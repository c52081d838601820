import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { Surface } from '../../contract/errors.ts'
import type { Route } from '../../contract/route.ts'
import type { Failure } from '../lib/fail.ts'
import { checkAnswer, jsonOf, watchHead, type Declared } from './answers.ts'
import type { Reply } from './call.ts'
import { refusal } from './envelope.ts'
import type { LogShare } from './log-share.ts'

/** No cache may store an answer unless its route declares it, because a stored token or secret could not be removed. */
export const NO_STORE = 'no-store'
const JSON_TYPE = 'application/json; charset=utf-8'

/** With `declared`, undeclared answers are refused. */
export async function send(declared: Declared | null, request: FastifyRequest, reply: FastifyReply, answer: Reply): Promise<FastifyReply> {
  if ('websocket' in answer) throw new Error('a WebSocket was answered to a request that asked for none')
  if ('stream' in answer) {
    reply.raw.setHeader('x-request-id', request.id)
    reply.raw.setHeader('cache-control', NO_STORE)
    await stream(declared, reply.raw, answer.stream)
    reply.hijack()
    return reply
  }
  if (declared) checkAnswer(declared, answer)
  reply.code(answer.status).header('x-request-id', request.id).header('cache-control', NO_STORE)
  if (answer.headers) reply.headers(answer.headers)
  if (answer.body instanceof Uint8Array) return reply.send(answer.body)
  // No compiled serializers are used: they drop undeclared properties, and JSON.stringify is as fast for rows of this size.
  const json = jsonOf(answer)
  return json === undefined ? reply.send() : reply.header('content-type', JSON_TYPE).send(json)
}

async function stream(declared: Declared | null, response: ServerResponse, write: (response: ServerResponse) => Promise<void>) {
  using _watched = declared && watchHead(declared, response)
  await write(response)
}

interface RefusalLog {
  surface: Surface
  logger: Logger
  log_share: LogShare
}

export function sendRefusal(
  { surface, logger, log_share }: RefusalLog,
  route: Route | null,
  request: FastifyRequest,
  reply: FastifyReply,
  failure: Failure,
): FastifyReply {
  logRefusal({ surface, logger, log_share }, route, request.id, failure)
  const { status, headers, body } = refusal(surface, failure, request.id)
  // The connection is closed, because the rest of a body that is too large is not read.
  if (status === 413) reply.header('connection', 'close')
  return reply
    .code(status)
    .headers({ ...headers, 'cache-control': NO_STORE })
    .header('x-request-id', request.id)
    .header('content-type', JSON_TYPE)
    .send(JSON.stringify(body))
}

/** Logs errors of the server with their cause. @returns the status of the refusal */
export function logRefusal({ surface, logger, log_share }: RefusalLog, route: Route | null, request_id: string, failure: Failure): number {
  const { status } = refusal(surface, failure, request_id)
  if (status < 500) return status
  const left_out = log_share.error(`${route?.id} ${failure.code}`)
  if (left_out === null) return status
  const err = failure.options.cause ?? failure
  logger.error({ err, request_id, route: route?.id, code: failure.code, ...(left_out > 0 ? { left_out } : {}) }, failure.message)
  return status
}
