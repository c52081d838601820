import type { IncomingMessage } from 'node:http'
import { Type, type Static, type TSchema } from 'typebox'
import { CELL_CODES, CELL_REASONS, type CellCode } from '../../../contract/errors.ts'
import { validatorOf } from '../../http/checks.ts'
import { fittingDetails } from '../../http/fitting-details.ts'
import { fail, type Failure } from '../../lib/fail.ts'
import { AgentTrouble } from './agent-trouble.ts'
import { parseAnswer } from './agent-json.ts'
import { CALL_BYTES, type AnswerRoom } from './answer-room.ts'

/** A shape that an agent's answers are checked against. Fields that it does not name are dropped. */
export interface Shape<T> {
  parse(value: unknown): T
}

export function shape<S extends TSchema>(schema: S): Shape<Static<S>> {
  const holds = validatorOf(schema)
  const names = Object.keys((schema as { properties?: object }).properties ?? {})
  return {
    parse(value) {
      if (!holds(value)) throw new AgentTrouble('nonsense', 'The agent gave an answer of another shape')
      const given = value as Record<string, unknown>
      return Object.fromEntries(names.filter((name) => Object.hasOwn(given, name)).map((name) => [name, given[name]])) as Static<S>
    },
  }
}

/** What a call of an agent goes by. */
export interface Bounds {
  /** Ends when the caller has left: the agent's side ends with it. */
  signal: AbortSignal
  /** What the call may keep in memory. */
  room: AnswerRoom
}

/** How much an answer may hold. */
export interface AnswerSize {
  bytes_max: number
  values_max: number
}

/** Below it an answer is read in the turn of the loop in which it has come. */
const AT_ONCE_BYTES_MAX = 64 << 10

/** Reads a whole JSON answer. Large ones wait for a turn of the loop of their own: to parse many in one would hold up everybody. */
export async function readJson(response: IncomingMessage, { bytes_max, values_max }: AnswerSize, bounds: Bounds): Promise<unknown> {
  const bytes = await readBytes(response, bytes_max, bounds)
  if (bytes.length > AT_ONCE_BYTES_MAX) await bounds.room.turn()
  return parseAnswer(bytes, values_max)
}

/** Throws AgentTrouble when there is no room for all of it, or more than `bytes_max`. */
export async function readBytes(response: IncomingMessage, bytes_max: number, { signal, room }: Bounds): Promise<Buffer> {
  let held: Buffer = Buffer.alloc(0)
  let bytes = 0
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      if (bytes + chunk.length > bytes_max) throw new AgentTrouble('nonsense', 'The agent gave an answer that is too large')
      held = bytes === 0 && chunk.length <= CALL_BYTES ? chunk : appended(held, bytes, chunk, room)
      bytes += chunk.length
    }
  } catch (cause) {
    if (cause instanceof AgentTrouble || cause === signal.reason) throw cause
    throw new AgentTrouble('cut', 'The connection to the agent broke', { cause })
  }
  return held.subarray(0, bytes)
}

/** Reads what has begun to come, or gives its sender up. */
export async function within<T>(response: IncomingMessage, within_ms: number, read: () => Promise<T>): Promise<T> {
  const late = setTimeout(() => response.destroy(new AgentTrouble('silent', 'The agent did not answer in time')), within_ms)
  try {
    return await read()
  } finally {
    clearTimeout(late)
  }
}

/** One piece of memory that grows: a list of pieces costs a hundred times the bytes of an agent that sends them one by one. */
function appended(held: Buffer, bytes: number, chunk: Buffer, room: AnswerRoom): Buffer {
  const needed = bytes + chunk.length
  if (needed > held.length) {
    const size = Math.max(2 * held.length, needed)
    room.take(size - held.length)
    const larger = Buffer.allocUnsafe(size)
    held.copy(larger, 0, 0, bytes)
    held = larger
  }
  chunk.copy(held, bytes)
  return held
}

const AgentError = Type.Object({
  code: Type.String({ maxLength: 100 }),
  reason: Type.Optional(Type.String({ maxLength: 100 })),
  message: Type.String({ maxLength: 2000 }),
  details: Type.Optional(Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()])),
})
const agentError = shape(AgentError)

/** What a guest may refuse in its own name. The others are the gateway's to say. */
const GUEST_CODES: ReadonlySet<string> = new Set<CellCode>([
  'bad_request',
  'not_found',
  'conflict',
  'payload_too_large',
  'range_not_satisfiable',
  'validation_failed',
  'rate_limited',
  'internal_error',
  'timeout',
])
/** `stale_endpoint` and the like would send a client elsewhere: not a guest's to say. */
const GATE_REASONS: ReadonlySet<string> = new Set(['stale_endpoint', 'not_supported_for_mode', 'secret_not_available'])

/** An agent's refusal in the caller's terms. Throws AgentTrouble when it is none that a guest may make. */
export function guestRefusal(value: unknown): Failure {
  const { code, reason, message, details } = agentError.parse(value)
  if (!GUEST_CODES.has(code)) throw new AgentTrouble('nonsense', `The agent refused with ${printable(code)}`)
  const reasons: readonly string[] = (CELL_REASONS as Partial<Record<string, readonly string[]>>)[code] ?? []
  const known = reason !== undefined && reasons.includes(reason) && !GATE_REASONS.has(reason) ? reason : null
  const { reason: _, ...told } = details ?? {} // the one above is the checked one
  const fitting = fittingDetails('cell', code, known, told)
  const retry = CELL_CODES[code as CellCode].status === 429 ? { retry_after_seconds: 1 } : {}
  return fail(code as CellCode, known, message, { ...(details ? { details: fitting } : {}), ...retry })
}

function printable(text: string): string {
  return text.replaceAll(/[^\w.-]/g, '?')
}
