import { refusal } from '../../../http/envelope.ts'
import type { Failure } from '../../../lib/fail.ts'
import type { Ending } from '../../host/output-frames.ts'

export interface EventEncoding {
  content_type: string
  output(stream: 'stdout' | 'stderr', offset: number, data: Buffer): string
  exit(ending: Ending): string
  /** The encoded event contains only ASCII. */
  event(value: object): string
  heartbeat(): string
  error(failure: Failure, request_id: string): string
}

export const NDJSON = encoding('application/x-ndjson', '', '\n')
export const SERVER_SENT_EVENTS = encoding('text/event-stream', 'data: ', '\n\n')

export function encodingFor(accept: string | undefined): EventEncoding {
  return accept !== undefined && /(?:^|,)\s*text\/event-stream\s*(?:;|,|$)/i.test(accept) ? SERVER_SENT_EVENTS : NDJSON
}

function encoding(content_type: string, before: string, after: string): EventEncoding {
  const event = (value: object) => `${before}${JSON.stringify(value)}${after}`
  const heartbeat = event({ type: 'heartbeat' })
  return {
    content_type,
    // Built without JSON.stringify: Base64 needs no escaping, and this line dominates the cost of a stream.
    output: (stream, offset, data) =>
      `${before}{"type":"output","stream":"${stream}","offset":${offset},"data":"${data.toString('base64')}"}${after}`,
    event: (value) => event(value).replaceAll(/[\u0080-\uffff]/g, escaped),
    exit: (ending) => event({ type: 'exit', ...ending }),
    heartbeat: () => heartbeat,
    error: (failure, request_id) => event({ type: 'error', ...refusal('cell', failure, request_id).body }),
  }
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
