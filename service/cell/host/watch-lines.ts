import { WatchChange, WatchEnd, WatchOverflow, WatchStart } from '../../../contract/schemas/cell/watch.ts'
import { shape } from './agent-answer.ts'
import { parseAnswer } from './agent-json.ts'
import { AgentFailure } from './agent-failure.ts'
import type { FrameReader } from './output-frames.ts'

/** Enough for a path of 4,096 escaped bytes and the rest of its line. */
const LINE_BYTES_MAX = 64 << 10
const NEWLINE = 0x0a

const SHAPES = { start: shape(WatchStart), change: shape(WatchChange), overflow: shape(WatchOverflow), end: shape(WatchEnd) }

/** Parses the events of a watch, one a line. Drops the heartbeats, which are only for the cell. */
export function createWatchReader(sink: { event(event: object): void; end(event: object): void }): FrameReader {
  let held: Buffer = Buffer.alloc(0)
  const take = (line: Buffer) => {
    const event = parseAnswer(line) as { type?: unknown } | null
    const type = typeof event === 'object' ? event?.type : undefined
    if (type === 'heartbeat') return
    if (typeof type !== 'string' || !Object.hasOwn(SHAPES, type)) throw nonsense('an event of no known type')
    const said = SHAPES[type as keyof typeof SHAPES].parse(event)
    if (type === 'end') sink.end(said)
    else sink.event(said)
  }
  return {
    push(chunk) {
      let from = 0
      for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
        const line = chunk.subarray(from, at)
        take(held.length === 0 ? line : Buffer.concat([held, line]))
        held = Buffer.alloc(0)
        from = at + 1
      }
      if (held.length + chunk.length - from > LINE_BYTES_MAX) throw nonsense('an event that is too long')
      if (from < chunk.length) held = Buffer.concat([held, chunk.subarray(from)])
    },
    complete: () => held.length === 0,
  }
}

function nonsense(what: string): AgentFailure {
  return new AgentFailure('nonsense', `The agent sent ${what}`)
}
