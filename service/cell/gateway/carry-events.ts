import type { IncomingMessage, ServerResponse } from 'node:http'
import { LIMITS } from '../../../contract/limits.ts'
import { fail, type Failure } from '../../lib/fail.ts'
import { AgentTrouble } from '../links/agent-trouble.ts'
import type { FrameReader } from '../links/output-frames.ts'
import { explainBreak, unexpected } from './broken.ts'
import type { Ticket } from './gate/ticket.ts'
import type { EventEncoding } from './exec/event-encoding.ts'

/** A stream of an agent's, and who reads it. */
export interface Carrying {
  frames: IncomingMessage
  /** Makes of what the agent sends what its reader is told. */
  read: (to: Telling) => FrameReader
  /** Whether it ends by an event alone; otherwise also where there is nothing more for now. */
  follow: boolean
  response: ServerResponse
  encoding: EventEncoding
  ticket: Ticket
  request_id: string
}

export interface Telling {
  text(text: string): void
  /** Nothing follows. */
  end(end: { kind: 'exit' } | { kind: 'refused'; failure: Failure }): void
}

/** How a stream came to its end: with the command, with what there was, or with a refusal that the reader is told. */
type End =
  | { kind: 'exit' }
  | { kind: 'caught_up' }
  | { kind: 'left' }
  | { kind: 'refused'; failure: Failure }
  | { kind: 'trouble'; trouble: AgentTrouble }

/** What was read but not yet written when the end came. */
type Ended = End & { last: string }

/** The agent says something every 15 s. A guest that stands still for a checkpoint says nothing for longer. */
const SILENCE_CHECKS_MAX = 4
/** What a caller of a silent command waits for the headers. */
const HEADERS_WAIT_MS = 10
/** For the agent to end a stream whose command has ended, so that its connection can carry the next call. */
const RELEASE_MS = 1000

/** Carries a stream to one reader, at the reader's pace: what it does not take stays in the workspace. */
export async function carryEvents(carrying: Carrying): Promise<void> {
  const { frames, response, encoding, ticket, request_id } = carrying
  startStream(response, encoding)
  const end = await carry(carrying)
  if (end.kind === 'exit' || end.kind === 'caught_up') release(frames)
  else frames.destroy()
  if (end.kind === 'left') return
  const failure = end.kind === 'refused' ? end.failure : end.kind === 'trouble' ? await explainBreak(ticket, end.trouble) : null
  response.end(end.last + (failure === null ? '' : encoding.error(failure, request_id)))
}

/** Headers go out with the first event, or alone when none comes for a moment: a short command's answer is one packet. */
export function startStream(response: ServerResponse, encoding: EventEncoding): void {
  response.writeHead(200, { 'content-type': encoding.content_type, 'cache-control': 'no-store', 'x-accel-buffering': 'no' })
  setTimeout(() => response.writableEnded || response.flushHeaders(), HEADERS_WAIT_MS)
}

function release(frames: IncomingMessage): void {
  const late = setTimeout(() => frames.destroy(), RELEASE_MS)
  frames.once('close', () => clearTimeout(late)).resume()
}

/** Resolves when there is nothing more to carry; everything that was started by it is ended then. */
function carry({ frames, read, follow, response, encoding, ticket }: Carrying): Promise<Ended> {
  return new Promise((resolve) => {
    let text = '' // what one arrival of frames became
    let ending: End | null = null
    let silent_checks = 0
    const reader = read({ text: (more) => void (text += more), end: (end) => void (ending = end) })
    const write = (what: string) => {
      // Events and heartbeats are ASCII: to say so spares a second look at every byte. What ends a stream may be other text.
      if (what !== '' && !response.write(what, 'latin1')) frames.pause()
    }
    const more = (chunk: Buffer) => {
      silent_checks = 0
      try {
        reader.push(chunk)
      } catch (error) {
        ending = error instanceof AgentTrouble ? { kind: 'trouble', trouble: error } : { kind: 'refused', failure: unexpected(error) }
      }
      if (ending !== null) return finish(ending)
      write(text)
      text = ''
    }
    const drained = () => frames.resume()
    const over = () => {
      if (reader.complete() && !follow) finish({ kind: 'caught_up' })
      else finish({ kind: 'trouble', trouble: new AgentTrouble('cut', 'The agent ended the stream before its last event') })
    }
    const broken = (cause: unknown) =>
      finish({ kind: 'trouble', trouble: new AgentTrouble('cut', 'The connection to the agent broke', { cause }) })
    const left = () => finish({ kind: 'left' })
    const draining = () => finish({ kind: 'refused', failure: drainingRefusal() })
    const gone = () => finish({ kind: 'trouble', trouble: new AgentTrouble('unreachable', 'The machine is gone') })
    const beat = setInterval(() => {
      // A reader that takes nothing gets no heartbeats either: they would pile up.
      if (response.writableNeedDrain) return
      write(encoding.heartbeat())
      silent_checks += 1
      if (silent_checks > SILENCE_CHECKS_MAX && !ticket.held()) {
        finish({ kind: 'trouble', trouble: new AgentTrouble('silent', 'The agent fell silent') })
      }
    }, LIMITS.stream.heartbeat_seconds * 1000)

    const finish = (end: End) => {
      clearInterval(beat)
      frames.off('data', more).off('end', over).off('close', broken).off('error', broken)
      frames.on('error', () => undefined) // destroying it below may report that it was destroyed
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
