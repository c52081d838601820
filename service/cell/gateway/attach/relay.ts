import type { Readable } from 'node:stream'
import type { RawData, WebSocket } from 'ws'
import { LIMITS } from '../../../../contract/limits.ts'
import type { WebSocketEnd } from '../../../http/websocket.ts'
import { fail, Failure } from '../../../lib/fail.ts'
import { AgentFailure } from '../../host/agent-failure.ts'
import type { FrameReader } from '../../host/output-frames.ts'
import { explainBreak, unexpected } from '../broken.ts'
import type { CallLease } from '../../admission/call-lease.ts'

export interface Events {
  say(message: string): void
  exited(message: string): void
  refused(failure: Failure): void
}

export interface AttachRelay {
  socket: WebSocket
  ticket: CallLease
  frames: Readable
  reader(events: Events): FrameReader
  /** Executes one client message; the next one waits for it. An error is sent to the client and ends the connection. */
  take(message: Buffer): Promise<void> | undefined
}

type End = { kind: 'exit' } | { kind: 'left' } | { kind: 'draining' } | { kind: 'failed'; error: unknown }

/** Frames pause above the high mark of unsent bytes, and resume below the low mark. */
const BUFFERED_BYTES_HIGH = 256 << 10
const BUFFERED_BYTES_LOW = 64 << 10
/** Heartbeats without a byte from the agent. It sends every 15 s, but a guest that is paused for a checkpoint is silent for longer. */
const SILENCE_CHECKS_MAX = 4
/** Heartbeats after which a client that reads nothing is disconnected. The client can attach again at its offsets. */
const STALLED_CHECKS_MAX = LIMITS.stream.stalled_seconds_max / LIMITS.stream.heartbeat_seconds
/** Unanswered pings after which a client that still reads is disconnected. */
const UNANSWERED_MAX = 4
/** Cell, "Events": only this close code means that the workspace is deleted. */
const CLOSED_DELETED = 4410

const HEARTBEAT = JSON.stringify({ type: 'heartbeat' })

/** Relays one session between agent and client at the client's pace: unread output remains in the workspace. */
export async function relay(carrying: AttachRelay): Promise<WebSocketEnd> {
  const { frames, socket, ticket } = carrying
  const end = await run(carrying)
  frames.on('error', () => undefined) // the destroyed stream may emit an error
  frames.destroy()
  if (end.kind === 'exit' || end.kind === 'left') return { code: 1000 }
  if (end.kind === 'draining') return { code: 1001 }
  socket.pause()
  return goodbyeOf(ticket, end.error)
}

interface RelayState {
  socket: WebSocket
  ticket: CallLease
  frames: Readable
  /** Heartbeats since the agent last sent something. */
  silent_checks: number
  /** Heartbeats since the client last read something. */
  stalled_checks: number
  /** Pings since the last pong. */
  unanswered: number
  heartbeat: NodeJS.Timeout | undefined
  /** null: the relay has ended, or has not begun. */
  listeners: Listeners | null
  /** Called when the socket has sent a message. One function serves all messages. */
  relax: () => void
  resolve: (end: End) => void
}

interface Listeners {
  message: (data: RawData, is_binary: boolean) => void
  left: () => void
  ponged: () => void
  more: (chunk: Buffer) => void
  broken: (cause?: unknown) => void
  draining: () => void
  gone: () => void
}

function run({ socket, ticket, frames, reader: openReader, take }: AttachRelay): Promise<End> {
  const { promise, resolve } = Promise.withResolvers<End>()
  const counts = { silent_checks: 0, stalled_checks: 0, unanswered: 0 }
  const relax = () => relaxed(state)
  const state: RelayState = { socket, ticket, frames, ...counts, heartbeat: undefined, listeners: null, relax, resolve }
  const reader = openReader({
    say: (message) => say(state, message),
    exited(message) {
      socket.send(message)
      finish(state, { kind: 'exit' })
    },
    refused: (failure) => finish(state, { kind: 'failed', error: failure }),
  })
  listen(state, listenersOf(state, reader, take))
  return promise
}

function say({ socket, frames, relax }: RelayState, message: string): void {
  socket.send(message, relax)
  if (socket.bufferedAmount > BUFFERED_BYTES_HIGH) frames.pause()
}

function relaxed(state: RelayState): void {
  state.stalled_checks = 0
  if (state.socket.bufferedAmount <= BUFFERED_BYTES_LOW) state.frames.resume()
}

function listenersOf(state: RelayState, reader: FrameReader, take: AttachRelay['take']): Listeners {
  const failed = (error: unknown) => finish(state, { kind: 'failed', error })
  return {
    message: createInbox(state.socket, take, failed),
    left: () => finish(state, { kind: 'left' }),
    ponged: () => void (state.unanswered = 0),
    more(chunk) {
      state.silent_checks = 0
      try {
        reader.push(chunk)
      } catch (error) {
        failed(error)
      }
    },
    broken: (cause) => failed(new AgentFailure('cut', 'The connection to the agent broke', { cause })),
    draining: () => finish(state, { kind: 'draining' }),
    gone: () => failed(new AgentFailure('unreachable', 'The machine is gone')),
  }
}

function listen(state: RelayState, listeners: Listeners): void {
  const { socket, ticket, frames } = state
  const { message, left, ponged, more, broken, draining, gone } = listeners
  state.listeners = listeners
  state.heartbeat = setInterval(() => beat(state), LIMITS.stream.heartbeat_seconds * 1000)
  socket.on('message', message).on('close', left).on('pong', ponged)
  frames.on('data', more).on('end', broken).on('close', broken).on('error', broken)
  ticket.draining.addEventListener('abort', draining)
  ticket.entry.gone.addEventListener('abort', gone)
  if (socket.readyState !== socket.OPEN) left()
  else if (ticket.draining.aborted) draining()
  else if (ticket.entry.gone.aborted) gone()
  else socket.resume()
}

/** Removes the listeners at once and does not wait for the promise: the frames may emit more data before that. */
function finish(state: RelayState, end: End): void {
  const { socket, ticket, frames, listeners } = state
  if (listeners === null) return
  state.listeners = null
  clearInterval(state.heartbeat)
  const { message, left, ponged, more, broken, draining, gone } = listeners
  frames.off('data', more).off('end', broken).off('close', broken).off('error', broken)
  socket.off('message', message).off('close', left).off('pong', ponged)
  ticket.draining.removeEventListener('abort', draining)
  ticket.entry.gone.removeEventListener('abort', gone)
  state.resolve(end)
}

function beat(state: RelayState): void {
  const { socket, ticket, frames } = state
  state.silent_checks += 1
  if (state.silent_checks > SILENCE_CHECKS_MAX && !frames.isPaused() && !ticket.held()) {
    finish(state, { kind: 'failed', error: new AgentFailure('silent', 'The agent fell silent') })
    return
  }
  state.stalled_checks += 1
  if (state.stalled_checks > STALLED_CHECKS_MAX) return socket.terminate()
  // Heartbeats to a stalled client would only add to its unsent bytes.
  if (socket.bufferedAmount > 0) return
  if (!socket.isPaused) state.unanswered += 1 // while paused, its pong may be among the unread messages
  if (state.unanswered > UNANSWERED_MAX) return socket.terminate()
  say(state, HEARTBEAT)
  socket.ping()
}

/** Executes messages one by one, in order. Pauses reading during each, so that only messages already received can queue up. */
function createInbox(socket: WebSocket, take: AttachRelay['take'], failed: (error: unknown) => void) {
  const waiting: Buffer[] = []
  let busy = false
  let over = false
  const fails = (error: unknown) => {
    over = true
    failed(error)
  }
  const ready = () => {
    busy = false
    if (obey() === 'done') socket.resume()
  }
  const obey = (): 'done' | 'busy' => {
    for (let message = waiting.shift(); message !== undefined && !over; message = waiting.shift()) {
      const obeyed = take(message)
      if (obeyed === undefined) continue
      busy = true
      socket.pause()
      obeyed.then(ready).catch(fails)
      return 'busy'
    }
    return 'done'
  }
  return (data: RawData, is_binary: boolean) => {
    const message = data as Buffer // binaryType is nodebuffer
    try {
      if (is_binary) throw fail('bad_request', null, 'Messages are JSON text')
      if (message.length > LIMITS.terminal.attach_message_bytes_max) throw tooLarge()
      waiting.push(message)
      if (!busy) obey()
    } catch (error) {
      fails(error)
    }
  }
}

function tooLarge(): Failure {
  const max_bytes = LIMITS.terminal.attach_message_bytes_max
  return fail('payload_too_large', null, `A message is larger than ${max_bytes} bytes`, { details: { max_bytes } })
}

async function goodbyeOf(ticket: CallLease, error: unknown): Promise<WebSocketEnd> {
  if (error instanceof Failure) return { failure: error }
  if (!(error instanceof AgentFailure)) return { failure: unexpected(error) }
  const failure = await explainBreak(ticket, error)
  return failure.reason === 'revoked_workspace' ? deleted() : { failure }
}

function deleted(): WebSocketEnd {
  return { failure: fail('not_found', null, 'The workspace was deleted'), code: CLOSED_DELETED }
}
