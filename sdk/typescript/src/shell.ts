import { type Bytes, fromBase64, toBase64, utf8 } from './bytes.ts'
import { BerthError, ConnectionError, errorOf, type Refusal } from './errors.ts'
import { withSessionId } from './exec.ts'
import type { Gateway } from './gateway.ts'
import { guestPath } from './guest-path.ts'
import { type Deadline, FOREVER_MS, IMMEDIATE_REPEATS_MAX, mayRepeat, pause, waitBefore } from './retry.ts'
import type { TerminalSession, TerminalStart } from './schemas.ts'
import { type CallOptions, deadlineFor, queryOf } from './transport.ts'
import { platformWebSocket } from './web-socket.ts'

export interface ShellOptions extends TerminalStart, CallOptions {
  /** Start offset of the output, in bytes. Default: 0. */
  offset?: number
}

/** A piece of a terminal's output. */
export interface TerminalChunk {
  offset: number
  bytes: Bytes
  text: string
}

export type TerminalEnding = Pick<TerminalSession, 'state' | 'exit_code' | 'term_signal' | 'error' | 'output_bytes'>

export type TerminalMessage =
  | { type: 'output'; offset: number; data: string }
  | ({ type: 'exit' } & TerminalEnding)
  | { type: 'heartbeat' }
  | { type: 'error'; error: Omit<Refusal, 'status'> }

const PROTOCOLS = ['berth.v1']
const BEARER = 'bearer.'
const INPUT_BYTES_MAX = 32 << 10
/** Limit of unread output. At the limit the connection is closed, and reopened at the same offset once there is space. */
const WAITING_BYTES_MAX = 8 << 20
const SILENCE_MS = 60_000

/**
 * A terminal of a workspace. Output arrives once and in order, across lost connections. Input without a connection waits for the next
 * one. Input in flight when a connection breaks may be lost, but is never repeated.
 */
export class Terminal implements AsyncDisposable, AsyncIterable<TerminalChunk> {
  readonly id: string
  readonly #gateway: Gateway
  readonly #socket: typeof WebSocket | null
  readonly #left = new AbortController()
  #typed: object[] = []
  #connection: WebSocket | null = null
  #next: number
  #ending: TerminalEnding | null = null

  constructor(gateway: Gateway, socket: typeof WebSocket | null, id: string, offset = 0) {
    this.#gateway = gateway
    this.#socket = socket
    this.id = id
    this.#next = offset
  }

  /** How it ended; null while it is open. */
  get ending(): TerminalEnding | null {
    return this.#ending
  }

  /** Sends input. It is sent only while a reader iterates over the output. */
  write(data: string | Uint8Array): void {
    const bytes = typeof data === 'string' ? utf8(data) : data
    for (let at = 0; at < bytes.length; at += INPUT_BYTES_MAX)
      this.#say({ type: 'input', data: toBase64(bytes.subarray(at, at + INPUT_BYTES_MAX)) })
  }

  resize(size: { cols: number; rows: number }): void {
    this.#say({ type: 'resize', ...size })
  }

  status(options?: CallOptions): Promise<TerminalSession> {
    return this.#gateway.call({ method: 'GET', path: this.#path() }, options)
  }

  /** Hangs up: the programs of the terminal get SIGHUP. */
  close(options?: CallOptions): Promise<TerminalSession> {
    return this.#gateway.call({ method: 'DELETE', path: this.#path(), repeats: 'keyed' }, options)
  }

  /** Disconnects. The terminal stays open, and `ws.terminal(id, { offset })` reconnects to it. */
  detach(): void {
    this.#left.abort()
    this.#connection?.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.detach()
    if (this.#ending === null) await this.close()
  }

  /** Yields output until the terminal ends. */
  async *[Symbol.asyncIterator](): AsyncGenerator<TerminalChunk, void> {
    const decoder = new TextDecoder()
    const deadline = deadlineFor({ signal: this.#left.signal }, FOREVER_MS)
    for (let attempt = 0; ; attempt += 1) {
      try {
        for await (const message of this.#messages(deadline)) {
          if (message.type === 'error') throw errorOf({ status: 0, ...message.error })
          if (message.type === 'exit') {
            if (message.output_bytes > this.#next) throw new ConnectionError('Output is missing')
            this.#ending = message
            return
          }
          if (message.type === 'heartbeat') continue
          if (message.offset > this.#next) throw new ConnectionError('Output is missing')
          const bytes = fromBase64(message.data).subarray(this.#next - message.offset)
          if (bytes.length === 0) continue
          attempt = 0
          const offset = this.#next
          this.#next += bytes.length
          yield { offset, bytes, text: decoder.decode(bytes, { stream: true }) }
        }
        if (this.#left.signal.aborted) return
        throw new ConnectionError('The terminal broke off')
      } catch (error) {
        if (this.#left.signal.aborted) return
        if (!(error instanceof BerthError)) throw error
        if ((await this.#gateway.repair(error, deadline)) && attempt < IMMEDIATE_REPEATS_MAX) continue
        if (error.code === 'unauthenticated' && attempt === 0) {
          await this.#gateway.renewed(deadline)
          continue
        }
        if (!mayRepeat(error, 'read')) throw error
        await pause(waitBefore(attempt, error.retryAfterMs), deadline)
      }
    }
  }

  async *#messages(deadline: Deadline): AsyncGenerator<TerminalMessage> {
    const { url, token } = await this.#gateway.target(deadline)
    const place = `${url.replace(/^http/, 'ws')}/v1/workspaces/${this.#gateway.id}${this.#path('/attach')}${queryOf({ offset: this.#next })}`
    const Socket = this.#socket ?? (await platformWebSocket())
    const socket = new Socket(place, [...PROTOCOLS, `${BEARER}${token}`])
    const waiting: string[] = []
    let waiting_bytes = 0
    let is_over = false as boolean
    let wake: () => void = () => undefined
    let silence = setTimeout(() => socket.close(), SILENCE_MS)
    const over = () => {
      is_over = true
      wake()
    }
    socket.onopen = () => {
      this.#connection = socket
      for (const message of this.#typed.splice(0)) socket.send(JSON.stringify(message))
    }
    socket.onclose = over
    socket.onerror = over
    socket.onmessage = (event) => {
      const data = String(event.data)
      clearTimeout(silence)
      silence = setTimeout(() => socket.close(), SILENCE_MS)
      waiting.push(data)
      waiting_bytes += data.length
      if (waiting_bytes > WAITING_BYTES_MAX) socket.close()
      wake()
    }
    try {
      for (;;) {
        const data = waiting.shift()
        if (data !== undefined) {
          waiting_bytes -= data.length
          yield JSON.parse(data) as TerminalMessage
        } else if (is_over) return
        else await new Promise<void>((resolve) => (wake = resolve))
      }
    } finally {
      clearTimeout(silence)
      this.#connection = null
      socket.close()
    }
  }

  #say(message: object): void {
    if (this.#connection?.readyState === 1) this.#connection.send(JSON.stringify(message))
    else this.#typed.push(message)
  }

  #path(below = ''): string {
    return `/pty/${encodeURIComponent(this.id)}${below}`
  }
}

/** Opens a terminal, once even if the request is retried. */
export async function openTerminal(gateway: Gateway, socket: typeof WebSocket | null, options: ShellOptions = {}): Promise<Terminal> {
  const { signal, waitMs, offset, ...given } = options
  const asked = given.cwd === undefined ? given : { ...given, cwd: guestPath(given.cwd) }
  const session_id = asked.session_id ?? `sdk-${crypto.randomUUID()}`
  const request = { method: 'POST', path: '/pty', json: { ...asked, session_id }, repeats: 'keyed' as const }
  const { state, error } = await gateway.call<TerminalSession>(request, { signal, waitMs }).catch((thrown: unknown) => {
    throw withSessionId(thrown, session_id, 'terminal')
  })
  if (state === 'failed_to_start')
    throw new BerthError({
      status: 0,
      code: 'command_failed',
      message: error ?? 'The terminal did not start',
      retryable: false,
      request_id: null,
    })
  return new Terminal(gateway, socket, session_id, offset)
}
