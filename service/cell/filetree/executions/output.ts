import type { IncomingMessage } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { LIMITS } from '../../../../contract/limits.ts'
import { Failure } from '../../../lib/fail.ts'
import type { AgentLink } from '../../host/agent-link.ts'
import type { CallBounds } from '../../host/agent-answer.ts'
import { AgentFailure } from '../../host/agent-failure.ts'
import { createFrameReader, type Ending } from '../../host/output-frames.ts'

class Beginning implements OutputSink {
  readonly #limit: number
  readonly #parts: Buffer[] = []
  #kept = 0
  /** All bytes received, including those beyond the limit that are not stored. */
  bytes = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  add(data: Buffer): void {
    this.bytes += data.length
    const part = data.subarray(0, this.#limit - this.#kept)
    if (part.length === 0) return
    this.#parts.push(Buffer.from(part)) // copy: the data is valid only during the call
    this.#kept += part.length
  }

  get isTruncated(): boolean {
    return this.bytes > this.#kept
  }

  content(): Buffer {
    return Buffer.concat(this.#parts)
  }
}

export interface Output {
  ending: Ending
  stdout: Buffer
  stderr: Buffer
  stdout_truncated: boolean
  stderr_truncated: boolean
}

const TRIES_MAX = 5
const TRY_AGAIN_MS = 200
/** The agent sends a heartbeat at least every 15 seconds, so a longer silence means that the connection is lost. */
const SILENCE_MS = 4 * LIMITS.stream.heartbeat_seconds * 1000

/** @throws AgentFailure if the machine stops answering */
export async function followToEnd(agent: AgentLink, session_id: string, limit_bytes: number, bounds: CallBounds): Promise<Output> {
  const output = { stdout: new Beginning(limit_bytes), stderr: new Beginning(limit_bytes) }
  const ending = await followInto(agent, session_id, output, bounds)
  return {
    ending,
    stdout: output.stdout.content(),
    stderr: output.stderr.content(),
    stdout_truncated: output.stdout.isTruncated,
    stderr_truncated: output.stderr.isTruncated,
  }
}

export interface OutputSink {
  readonly bytes: number
  /** @param data is valid only during the call */
  add(data: Buffer): void
}

/** @throws AgentFailure if the machine stops answering */
export async function followInto(agent: AgentLink, session_id: string, output: Takers, bounds: CallBounds): Promise<Ending> {
  for (let tries = 1; ; tries++) {
    const before = output.stdout.bytes + output.stderr.bytes
    try {
      const from = { stdout_offset: output.stdout.bytes, stderr_offset: output.stderr.bytes, follow: true }
      return await follow(await agent.openOutput(session_id, from, bounds), from, output)
    } catch (error) {
      if (!(error instanceof AgentFailure) || error.kind === 'nonsense' || bounds.signal.aborted) throw error
      if (output.stdout.bytes + output.stderr.bytes > before) tries = 0
      if (tries >= TRIES_MAX) throw error
      await setTimeout(TRY_AGAIN_MS, undefined, { signal: bounds.signal })
    }
  }
}

type Takers = Record<'stdout' | 'stderr', OutputSink>

function follow(frames: IncomingMessage, from: { stdout_offset: number; stderr_offset: number }, kept: Takers): Promise<Ending> {
  const { promise, resolve, reject } = Promise.withResolvers<Ending>()
  let silence: NodeJS.Timeout | undefined
  const fail = (error: unknown) => {
    clearTimeout(silence)
    reject(
      error instanceof AgentFailure || error instanceof Failure ? error : new AgentFailure('cut', 'The connection broke', { cause: error }),
    )
    frames.destroy()
  }
  const listen = () => {
    clearTimeout(silence)
    silence = globalThis.setTimeout(() => fail(new AgentFailure('silent', 'The agent fell silent')), SILENCE_MS)
  }
  const reader = createFrameReader(from, {
    output: (stream, _offset, data) => kept[stream].add(data),
    exit(ending) {
      clearTimeout(silence)
      resolve(ending)
      frames.resume()
    },
    error: fail,
  })
  frames.on('data', (chunk: Buffer) => {
    listen()
    try {
      reader.push(chunk)
    } catch (error) {
      fail(error)
    }
  })
  frames.on('error', fail)
  frames.on('close', () => fail(new AgentFailure('cut', 'The agent ended the stream before the command did')))
  listen()
  return promise
}
