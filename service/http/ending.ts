import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { Route } from '../../contract/route.ts'
import { LIMITS } from '../../contract/limits.ts'
import type { Clock } from '../lib/clock.ts'
import type { Who } from './call.ts'
import type { LogShare } from './log-share.ts'

export interface Observation {
  route: Route | null
  method: string
  status: number
  seconds: number
}

export interface Endings {
  clock: Clock
  logger: Logger
  log_share: LogShare
  observe?(seen: Observation): void
  in_progress: CallCount
}

export class CallCount {
  #count = 0
  #none: (() => void) | null = null

  begin(): void {
    this.#count++
  }

  end(): void {
    this.#count--
    if (this.#count === 0) this.#none?.()
  }

  whenNone(then: () => void): void {
    this.#none = then
    if (this.#count === 0) then()
  }
}

/** Berth's keys, sessions and tokens, which a caller may put into a path by mistake. */
const CREDENTIAL = /(sf[a-z]{1,2}_|eyJ)[\w.-]{16,}/g

const CLIENT_GONE = 499 // used only in logs and metrics: the client disconnected before the answer

/** Ends a call: aborts its signal, disposes its ticket, and writes its log line and metric. */
export class Ending {
  who: Who | null = null
  /** Set for a WebSocket only: 101, or the status of the refusal that ended it. */
  status: number | null = null
  readonly #endings: Endings
  readonly #route: Route | null
  readonly #request: FastifyRequest
  readonly #reply: FastifyReply
  readonly #started_ms: number
  /** Read at the start, because a request whose body was abandoned has no socket when its answer closes. */
  readonly #address: string
  #controller: AbortController | null = null
  #ended = false
  #served = false
  #ticket: unknown

  constructor(endings: Endings, route: Route | null, request: FastifyRequest, reply: FastifyReply) {
    this.#endings = endings
    this.#route = route
    this.#request = request
    this.#reply = reply
    this.#started_ms = endings.clock.monotonic_ms()
    this.#address = request.raw.socket.remoteAddress ?? ''
    endings.in_progress.begin()
    reply.raw.once('close', () => this.#end())
  }

  /** Created on demand, because few calls listen to the signal. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#ended) this.#controller.abort()
    return this.#controller.signal
  }

  keep(ticket: unknown): void {
    this.#ticket = ticket
  }

  /** Called when the handler has finished. The ticket is not disposed before, even if the caller disconnects earlier. */
  served(): void {
    this.#served = true
    if (this.#ended) dispose(this.#ticket)
  }

  #end(): void {
    const { clock, observe, logger, in_progress } = this.#endings
    const { raw } = this.#reply
    this.#ended = true
    if (!raw.writableFinished) this.#controller?.abort()
    if (this.#served) dispose(this.#ticket)
    in_progress.end()
    const seconds = (clock.monotonic_ms() - this.#started_ms) / 1000
    const status = this.status ?? (raw.headersSent ? raw.statusCode : CLIENT_GONE)
    observe?.({ route: this.#route, method: this.#request.method, status, seconds })
    this.#log(logger, status, seconds)
  }

  /** Writes the log line; successful reads at debug level. Query and headers are omitted, since they may hold private data. */
  #log(logger: Logger, status: number, seconds: number): void {
    const { id, method, url } = this.#request
    const level = method === 'GET' && status < 400 ? 'debug' : 'info'
    if (!logger.isLevelEnabled(level)) return
    const who = this.who
    const principal = who === null ? undefined : who.type === 'tool_token' ? who.principal_id : who.id
    const left_out = status < 400 ? 0 : this.#endings.log_share.refusal(principal ?? null, this.#address)
    if (left_out === null) return
    const path = shortened((url.split('?', 1)[0] ?? '').replaceAll(CREDENTIAL, '$1…'))
    logger[level](
      {
        request_id: id,
        method,
        path,
        route: this.#route?.id,
        status,
        ms: Math.round(seconds * 1e5) / 100,
        principal,
        ...(left_out > 0 ? { left_out } : {}),
      },
      'request',
    )
  }
}

/** Credentials must be masked before, because a shortened credential would not be recognized. */
function shortened(path: string): string {
  const most = LIMITS.log.path_characters_max
  return path.length <= most ? path : `${path.slice(0, most)}…`
}

function dispose(held: unknown): void {
  if (held !== null && typeof held === 'object' && Symbol.dispose in held) (held as Disposable)[Symbol.dispose]()
}
