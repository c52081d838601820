import type { IncomingMessage, ServerResponse } from 'node:http'
import { LIMITS } from '../../../contract/limits.ts'
import { fail, type Failure } from '../../lib/fail.ts'
import { AgentFailure } from '../host/agent-failure.ts'
import type { FrameReader } from '../host/output-frames.ts'
import { explainBreak, unexpected } from './broken.ts'
import type { CallLease } from '../admission/call-lease.ts'
import type { EventEncoding } from './exec/event-encoding.ts'

export interface EventRelay {
  frames: IncomingMessage
  read: (to: EventSink) => FrameReader
  /** false: the stream also ends when no more output is available now. */
  follow: boolean
  response: ServerResponse
  encoding: EventEncoding
  ticket: CallLease
  request_id: string
}

export interface EventSink {
  text(text: string): void
  end(end: { kind: 'exit' } | { kind: 'refused'; failure: Failure }): void
}

type End =
  | { kind: 'exit' }
  | { kind: 'caught_up' }
  | { kind: 'left' }
  | { kind: 'refused'; failure: Failure }
  | { kind: 'trouble'; trouble: AgentFailure }

type Ended = End & { last: string }

/** Heartbeats without a byte from the agent: a guest that is paused for a checkpoint is silent for longer than the agent's 15 s. */
const SILENCE_CHECKS_MAX = 4
const HEADERS_WAIT_MS = 10
/** Time for the agent to end the stream of an ended command, so that its connection can be reused. */
const RELEASE_MS = 1000

/** Sends the frames at the reader's pace: unread output remains in the workspace. */
export async function relayEvents(carrying: EventRelay): Promise<void> {
  const { frames, response, encoding, ticket, request_id } = carrying
  startStream(response, encoding)
  const end = await carry(carrying)
  if (end.kind === 'exit' || end.kind === 'caught_up') release(frames)
  else frames.destroy()
  if (end.kind === 'left') return
  const failure = end.kind === 'refused' ? end.failure : end.kind === 'trouble' ? await explainBreak(ticket, end.trouble) : null
  response.end(end.last + (failure === null ? '' : encoding.error(failure, request_id)))
}

/** Delays the headers until the first event, so that a short command's answer is one packet. */
export function startStream(response: ServerResponse, encoding: EventEncoding): void {
  response.writeHead(200, { 'content-type': encoding.content_type, 'cache-control': 'no-store', 'x-accel-buffering': 'no' })
  setTimeout(() => response.writableEnded || response.flushHeaders(), HEADERS_WAIT_MS)
}

function release(frames: IncomingMessage): void {
  const late = setTimeout(() => frames.destroy(), RELEASE_MS)
  frames.once('close', () => clearTimeout(late)).resume()
}

function carry({ frames, read, follow, response, encoding, ticket }: EventRelay): Promise<Ended> {
  return new Promise((resolve) => {
    let text = '' // events of one arrival of frames
    let ending: End | null = null
    let silent_checks = 0
    const reader = read({ text: (more) => void (text += more), end: (end) => void (ending = end) })
    const write = (what: string) => {
      // Events and heartbeats are ASCII, so latin1 saves a second pass over the bytes. The end of a stream may be other text.
      if (what !== '' && !response.write(what, 'latin1')) frames.pause()
    }
    const more = (chunk: Buffer) => {
      silent_checks = 0
      try {
        reader.push(chunk)
      } catch (error) {
        ending = error instanceof AgentFailure ? { kind: 'trouble', trouble: error } : { kind: 'refused', failure: unexpected(error) }
      }
      if (ending !== null) return finish(ending)
      write(text)
      text = ''
    }
    const drained = () => frames.resume()
    const over = () => {
      if (reader.complete() && !follow) finish({ kind: 'caught_up' })
      else finish({ kind: 'trouble', trouble: new AgentFailure('cut', 'The agent ended the stream before its last event') })
    }
    const broken = (cause: unknown) =>
      finish({ kind: 'trouble', trouble: new AgentFailure('cut', 'The connection to the agent broke', { cause }) })
    const left = () => finish({ kind: 'left' })
    const draining = () => finish({ kind: 'refused', failure: drainingRefusal() })
    const gone = () => finish({ kind: 'trouble', trouble: new AgentFailure('unreachable', 'The machine is gone') })
    const beat = setInterval(() => {
      // Heartbeats to a stalled reader would only add to its unsent bytes.
      if (response.writableNeedDrain) return
      write(encoding.heartbeat())
      silent_checks += 1
      if (silent_checks > SILENCE_CHECKS_MAX && !ticket.held()) {
        finish({ kind: 'trouble', trouble: new AgentFailure('silent', 'The agent fell silent') })
      }
    }, LIMITS.stream.heartbeat_seconds * 1000)

    const finish = (end: End) => {
      clearInterval(beat)
      frames.off('data', more).off('end', over).off('close', broken).off('error', broken)
      frames.on('error', () => undefined) // the stream may emit an error when it is destroyed later
      response.off('drain', drained).off('close', left)
      ticket.draining.removeEventListener('abort', draining)
      ticket.entry.gone.removeEventListener('abort', gone)
      resolve({ ...end, last: text })
    }
    response.on('drain', drained).on('close', left)
    frames.on('data', more).on('end', over).on('close', broken).on('error', broken)
    ticket.draining.addEventListener('abort', draining)
    ticket.entry.gone.addEventListener('abort', gone)
    if (response.destroyed) left()
    else if (ticket.draining.aborted) draining()
    else if (ticket.entry.gone.aborted) gone()
  })
}

function drainingRefusal(): Failure {
  return fail('service_unavailable', 'draining', 'The gateway is shutting down: reconnect with the last offsets', {
    retry_after_seconds: 1,
  })
}
