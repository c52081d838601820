import type { IncomingMessage } from 'node:http'
import { AgentFailure } from './agent-failure.ts'
import { FRAME, readHeader } from './output-frames.ts'

/**
 * Reads the record at the start of a followed command, and leaves later frames in the stream. Destroys the stream if the record is
 * invalid.
 */
export async function readStarted<T>(frames: IncomingMessage, parse: (record: Buffer) => T): Promise<T> {
  try {
    return parse(await readRecord(frames))
  } catch (cause) {
    frames.destroy()
    throw cause instanceof AgentFailure ? cause : new AgentFailure('cut', 'The connection to the agent broke', { cause })
  }
}

function readRecord(frames: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let bytes: Buffer = Buffer.alloc(0)
    const stop = () => frames.off('readable', more).off('end', ended).off('close', ended).off('error', failed)
    const failed = (error: Error) => {
      stop()
      reject(error)
    }
    const ended = () => failed(new AgentFailure('cut', 'The agent ended its answer before the record'))
    const more = () => {
      const chunk = frames.read() as Buffer | null
      if (chunk === null) return
      bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk])
      try {
        const end = recordEnd(bytes)
        if (end === null || bytes.length < end) return
        stop()
        if (bytes.length > end) frames.unshift(bytes.subarray(end))
        resolve(bytes.subarray(FRAME.header_bytes, end))
      } catch (error) {
        failed(error as Error)
      }
    }
    frames.on('readable', more).on('end', ended).on('close', ended).on('error', failed)
  })
}

/** The end of the record; null while the header is incomplete. */
function recordEnd(bytes: Buffer): number | null {
  if (bytes.length < FRAME.header_bytes) return null
  const { kind, length, offset } = readHeader(bytes)
  if (kind !== FRAME.record || offset !== 0 || length === 0 || length > FRAME.data_bytes_max) {
    throw new AgentFailure('nonsense', 'The agent began a started command with something else than its record')
  }
  return FRAME.header_bytes + length
}
