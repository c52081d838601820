import { Type, type Static } from 'typebox'
import { EndFields as EndingFields } from '../../../contract/schemas/cell/session.ts'
import type { Failure } from '../../lib/fail.ts'
import { guestRefusal, shape } from './agent-answer.ts'
import { parseAnswer } from './agent-json.ts'
import { AgentFailure } from './agent-failure.ts'

/** The frames of the output stream, as in machine/internal/wire/agent.go. */
export const FRAME = {
  stdout: 1,
  stderr: 2,
  exit: 3,
  heartbeat: 4,
  error: 5,
  record: 6,
  header_bytes: 16,
  data_bytes_max: 64 << 10,
} as const
/** A record may repeat the command's arguments. The current agent omits arguments above 64 KiB. */
const RECORD_BYTES_MAX = 1 << 20
/** The high half of an offset must be below this, so that the offset is a safe integer. */
const OFFSET_HIGH_MAX = 2 ** 21

const endingFields = Type.Object(EndingFields)
export type Ending = Static<typeof endingFields>

/** Receives parsed frames. `data` is valid only during the call. */
export interface FrameSink<E = Ending> {
  output(stream: 'stdout' | 'stderr', offset: number, data: Buffer): void
  exit(ending: E): void
  error(failure: Failure): void
}

export interface FrameReader {
  push(chunk: Buffer): void
  complete(): boolean
}

const ending = shape(endingFields)

interface Header {
  kind: number
  length: number
  offset: number
}

/** Passes output on before its frame is complete, and joins adjacent frames: neither large nor tiny frames cost memory. */
export function createFrameReader(from: { stdout_offset: number; stderr_offset: number }, sink: FrameSink): FrameReader {
  return readFrames(from, sink, endingOf)
}

/** For streams with another exit record. `parseEnding` throws AgentFailure for an invalid record. */
export function readFrames<E>(
  from: { stdout_offset: number; stderr_offset: number },
  sink: FrameSink<E>,
  parseEnding: (record: unknown) => E,
): FrameReader {
  const next = { stdout: from.stdout_offset, stderr: from.stderr_offset }
  const head = Buffer.alloc(FRAME.header_bytes)
  let head_bytes = 0
  let current: Header | null = null
  let left = 0 // bytes of the current frame that are still to come
  let record: Buffer[] = []
  let over = false
  const run = createRun(sink)

  const take = ({ kind }: Header, chunk: Buffer, at: number): number => {
    const bytes = Math.min(left, chunk.length - at)
    const data = chunk.subarray(at, at + bytes)
    if (kind === FRAME.stdout || kind === FRAME.stderr) {
      const stream = kind === FRAME.stdout ? 'stdout' : 'stderr'
      run.add(stream, next[stream], data)
      next[stream] += bytes
    } else {
      record.push(data)
    }
    left -= bytes
    if (left === 0) finish(kind)
    return at + bytes
  }
  const finish = (kind: number) => {
    current = null
    if (kind !== FRAME.exit && kind !== FRAME.error) return
    run.flush()
    over = true
    const said = parseAnswer(Buffer.concat(record))
    record = []
    if (kind === FRAME.exit) sink.exit(parseEnding(said))
    else sink.error(guestRefusal(said))
  }
  const begin = () => {
    head_bytes = 0
    current = readHeader(head)
    checkHeader(current, next)
    left = current.length
    if (left === 0) finish(current.kind)
  }
  const read = (chunk: Buffer) => {
    let at = 0
    while (at < chunk.length && !over) {
      if (current !== null) {
        at = take(current, chunk, at)
        continue
      }
      const bytes = Math.min(FRAME.header_bytes - head_bytes, chunk.length - at)
      chunk.copy(head, head_bytes, at, at + bytes)
      head_bytes += bytes
      at += bytes
      if (head_bytes === FRAME.header_bytes) begin()
    }
  }
  return {
    push(chunk) {
      try {
        read(chunk)
      } finally {
        run.flush() // output before an invalid frame is valid
      }
    },
    complete: () => current === null && head_bytes === 0,
  }
}

/** Joins adjacent pieces of one stream, up to the size of a frame. */
function createRun(sink: Pick<FrameSink, 'output'>) {
  let stream: 'stdout' | 'stderr' = 'stdout'
  let offset = 0
  let bytes = 0
  let pieces: Buffer[] = []
  const flush = () => {
    const [first] = pieces
    if (first !== undefined) sink.output(stream, offset, pieces.length === 1 ? first : Buffer.concat(pieces, bytes))
    pieces = []
    bytes = 0
  }
  return {
    flush,
    add(of: 'stdout' | 'stderr', at: number, data: Buffer) {
      if (of !== stream || bytes + data.length > FRAME.data_bytes_max) flush()
      if (bytes === 0) {
        stream = of
        offset = at
      }
      pieces.push(data)
      bytes += data.length
    },
  }
}

export function readHeader(head: Buffer): Header {
  const high = head.readUInt32BE(8)
  if (head.readUIntBE(1, 3) !== 0 || high >= OFFSET_HIGH_MAX) throw nonsense('a header that is not one')
  return { kind: head.readUInt8(0), length: head.readUInt32BE(4), offset: high * 2 ** 32 + head.readUInt32BE(12) }
}

function checkHeader({ kind, length, offset }: Header, next: { stdout: number; stderr: number }): void {
  if (kind === FRAME.stdout || kind === FRAME.stderr) {
    if (length === 0 || length > FRAME.data_bytes_max) throw nonsense('output of a forbidden length')
    if (offset !== (kind === FRAME.stdout ? next.stdout : next.stderr)) throw nonsense('output out of order')
    if (!Number.isSafeInteger(offset + length)) throw nonsense('an offset past every file')
  } else if (kind === FRAME.heartbeat) {
    if (length !== 0) throw nonsense('a heartbeat with data')
  } else if (kind !== FRAME.exit && kind !== FRAME.error) {
    throw nonsense('a frame of unknown kind')
  } else if (length === 0 || length > RECORD_BYTES_MAX) {
    throw nonsense('a record of a forbidden length')
  }
}

function endingOf(value: unknown): Ending {
  const parsed = ending.parse(value)
  if (parsed.state === 'running') throw nonsense('an exit of a command that runs')
  return parsed
}

function nonsense(what: string): AgentFailure {
  return new AgentFailure('nonsense', `The agent sent ${what}`)
}
