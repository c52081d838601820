import type { IncomingMessage } from 'node:http'
import { Type, type Static, type TSchema } from 'typebox'
import { CELL_CODES, CELL_REASONS, type CellCode } from '../../../contract/errors.ts'
import { compileSchema } from '../../http/checks.ts'
import { parseJson } from '../../http/read-body.ts'
import { fail, type Failure } from '../../lib/fail.ts'
import { AgentTrouble } from './agent-trouble.ts'

/** A shape that an agent's answers are checked against. Fields that it does not name are dropped. */
export interface Shape<T> {
  parse(value: unknown): T
}

export function shape<S extends TSchema>(schema: S): Shape<Static<S>> {
  const holds = compileSchema(schema)
  const names = Object.keys((schema as { properties?: object }).properties ?? {})
  return {
    parse(value) {
      if (!holds(value)) throw new AgentTrouble('nonsense', 'The agent gave an answer of another shape')
      const given = value as Record<string, unknown>
      return Object.fromEntries(names.filter((name) => Object.hasOwn(given, name)).map((name) => [name, given[name]])) as Static<S>
    },
  }
}

/** Reads a whole JSON answer of at most `bytes_max` bytes. */
export async function readJson(response: IncomingMessage, bytes_max: number): Promise<unknown> {
  return wholeJson(await readBytes(response, bytes_max))
}

export function wholeJson(bytes: Buffer): unknown {
  const parsed = parseJson(bytes)
  if (parsed === undefined) throw new AgentTrouble('nonsense', 'The agent gave an answer that is not JSON')
  return parsed.value
}

async function readBytes(response: IncomingMessage, bytes_max: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes > bytes_max) break // leaving the loop destroys the connection
      chunks.push(chunk)
    }
  } catch (cause) {
    throw new AgentTrouble('cut', 'The connection to the agent broke', { cause })
  }
  if (bytes > bytes_max) throw new AgentTrouble('nonsense', 'The agent gave an answer that is too large')
  return Buffer.concat(chunks)
}

const AgentError = Type.Object({
  code: Type.String({ maxLength: 100 }),
  reason: Type.Optional(Type.String({ maxLength: 100 })),
  message: Type.String({ maxLength: 2000 }),
  details: Type.Optional(Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()])),
})
const agentError = shape(AgentError)
export const AGENT_ERROR_BYTES_MAX = 16 << 10

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
  delete details?.['reason'] // the one above is the checked one
  const retry = CELL_CODES[code as CellCode].status === 429 ? { retry_after_seconds: 1 } : {}
  return fail(code as CellCode, known, message, { ...(details ? { details } : {}), ...retry })
}

function printable(text: string): string {
  return text.replaceAll(/[^\w.-]/g, '?')
}
