import { Type, type Static } from 'typebox'
import { TerminalEnding, type TerminalSize } from '../../../contract/schemas/cell/terminal.ts'
import { shape } from './agent-answer.ts'
import { AgentFailure } from './agent-failure.ts'
import { FRAME, readFrames, type FrameReader, type FrameSink } from './output-frames.ts'

/** The frames that an attached terminal accepts, as in machine/internal/wire/agent.go. */
const INPUT = 16
const RESIZE = 17

const Ended = Type.Object(TerminalEnding)
export type TerminalEnd = Static<typeof Ended>
const ended = shape(Ended)

export interface TerminalSink {
  output(offset: number, data: Buffer): void
  exit(ending: TerminalEnd): void
  error: FrameSink['error']
}

export function readTerminalFrames(offset: number, sink: TerminalSink): FrameReader {
  return readFrames(
    { stdout_offset: offset, stderr_offset: 0 },
    {
      output(stream, at, data) {
        if (stream !== 'stdout') throw new AgentFailure('nonsense', 'The agent sent a second stream of a terminal')
        sink.output(at, data)
      },
      exit: sink.exit,
      error: sink.error,
    },
    (record) => {
      const ending = ended.parse(record)
      if (ending.state === 'running') throw new AgentFailure('nonsense', 'The agent sent an exit of a terminal that is open')
      return ending
    },
  )
}

export function inputFrame(data: Buffer): Buffer {
  return frame(INPUT, data)
}

export function resizeFrame({ cols, rows }: TerminalSize): Buffer {
  const data = Buffer.alloc(4)
  data.writeUInt16BE(cols, 0)
  data.writeUInt16BE(rows, 2)
  return frame(RESIZE, data)
}

function frame(kind: number, data: Buffer): Buffer {
  const head = Buffer.alloc(FRAME.header_bytes)
  head.writeUInt8(kind, 0)
  head.writeUInt32BE(data.length, 4)
  return Buffer.concat([head, data])
}
