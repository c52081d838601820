import type { IncomingMessage } from 'node:http'
import type { Static, TSchema } from 'typebox'
import { AGENT_ERRORS, AgentError } from '../../../contract/internal/agent.ts'
import { CELL_CODES, CELL_REASONS, type CellCode } from '../../../contract/errors.ts'
import { validatorOf } from '../../http/checks.ts'
import { fittingDetails } from '../../http/fitting-details.ts'
import { fail, type Failure } from '../../lib/fail.ts'
import { AgentFailure } from './agent-failure.ts'
import { parseAnswer } from './agent-json.ts'
import { CALL_BYTES, type BufferBudget } from './buffer-budget.ts'

/** Validates an agent's answer and removes fields that the schema does not name. */
export interface Shape<T> {
  parse(value: unknown): T
}

export function shape<S extends TSchema>(schema: S): Shape<Static<S>> {
  const holds = validatorOf(schema)
  const names = Object.keys((schema as { properties?: object }).properties ?? {})
  return {
    parse(value) {
      if (!holds(value)) throw new AgentFailure('nonsense', 'The agent gave an answer of another shape')
      const given = value as Record<string, unknown>
      return Object.fromEntries(names.filter((name) => Object.hasOwn(given, name)).map((name) => [name, given[name]])) as Static<S>
    },
  }
}

export interface CallBounds {
  /** Aborted when the caller disconnects. The agent then ends its part of the call, too. */
  signal: AbortSignal
  room: BufferBudget
}

export interface AnswerSize {
  bytes_max: number
  values_max: number
}

const AT_ONCE_BYTES_MAX = 64 << 10

/**
 * Reads a whole JSON answer. Each large answer gets an event-loop tick of its own, because parsing many in one tick would block all
 * callers.
 */
export async function readJson(response: IncomingMessage, { bytes_max, values_max }: AnswerSize, bounds: CallBounds): Promise<unknown> {
  const bytes = await readBytes(response, bytes_max, bounds)
  if (bytes.length > AT_ONCE_BYTES_MAX) await bounds.room.nextTick()
  return parseAnswer(bytes, values_max)
}

/** Throws AgentFailure above `bytes_max`, or if the buffer budget is used up. */
export async function readBytes(response: IncomingMessage, bytes_max: number, { signal, room }: CallBounds): Promise<Buffer> {
  let held: Buffer = Buffer.alloc(0)
  let bytes = 0
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      if (bytes + chunk.length > bytes_max) throw new AgentFailure('nonsense', 'The agent gave an answer that is too large')
      held = bytes === 0 && chunk.length <= CALL_BYTES ? chunk : appended(held, bytes, chunk, room)
      bytes += chunk.length
    }
  } catch (cause) {
    if (cause instanceof AgentFailure || cause === signal.reason) throw cause
    throw new AgentFailure('cut', 'The connection to the agent broke', { cause })
  }
  return held.subarray(0, bytes)
}

export async function within<T>(response: IncomingMessage, within_ms: number, read: () => Promise<T>): Promise<T> {
  const late = setTimeout(() => response.destroy(new AgentFailure('silent', 'The agent did not answer in time')), within_ms)
  try {
    return await read()
  } finally {
    clearTimeout(late)
  }
}

/** Grows one buffer. A list of pieces would cost a hundred times the bytes if an agent sends them one by one. */
function appended(held: Buffer, bytes: number, chunk: Buffer, room: BufferBudget): Buffer {
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

const agentError = shape(AgentError)

const GUEST_CODES: ReadonlySet<string> = new Set(AGENT_ERRORS)
/** Reasons such as `stale_endpoint` would redirect a client, so a guest must not use them. */
const GATE_REASONS: ReadonlySet<string> = new Set(['stale_endpoint', 'not_supported_for_mode', 'secret_not_available'])

/** Turns an agent's refusal into the caller's terms. Throws AgentFailure if a guest may not refuse this way. */
export function guestRefusal(value: unknown): Failure {
  const { code, reason, message, details } = agentError.parse(value)
  if (!GUEST_CODES.has(code)) throw new AgentFailure('nonsense', `The agent refused with ${printable(code)}`)
  const reasons: readonly string[] = (CELL_REASONS as Partial<Record<string, readonly string[]>>)[code] ?? []
  const known = reason !== undefined && reasons.includes(reason) && !GATE_REASONS.has(reason) ? reason : null
  const { reason: _, ...told } = details ?? {} // the checked reason above replaces it
  const fitting = fittingDetails('cell', code, known, told)
  const retry = CELL_CODES[code as CellCode].status === 429 ? { retry_after_seconds: 1 } : {}
  return fail(code as CellCode, known, message, { ...(details ? { details: fitting } : {}), ...retry })
}

function printable(text: string): string {
  return text.replaceAll(/[^\w.-]/g, '?')
}
