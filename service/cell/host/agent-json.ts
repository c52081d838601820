import { parseJson } from '../../http/read-body.ts'
import { AgentFailure } from './agent-failure.ts'

/** The limit for a record, which repeats the arguments of a command. */
export const RECORD_VALUES_MAX = 20_000
/** Agents send flat data: lists of records of lists. */
const DEPTH_MAX = 16

/** Bytes outside of strings. Parsing a number of a million digits takes as long as a million values. */
const BARE_BYTES_MAX = 2 << 20

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const BRACKET = 0x5b
const BRACKET_END = 0x5d
const BRACE = 0x7b
const BRACE_END = 0x7d

/**
 * Parses an agent's answer after counting its values. Size alone does not bound the cost: 32 MiB of `{},{},…` block the event loop for
 * seconds and become a gigabyte of objects.
 * @throws AgentFailure
 */
export function parseAnswer(bytes: Buffer, values_max = RECORD_VALUES_MAX): unknown {
  if (bytes.length > values_max && !isLight(bytes, values_max)) {
    throw new AgentFailure('nonsense', 'The agent gave an answer of too many values')
  }
  const parsed = parseJson(bytes)
  if (parsed === undefined) throw new AgentFailure('nonsense', 'The agent gave an answer that is not JSON')
  return parsed.value
}

/** Whether the bytes hold few values, little nesting and mostly strings. Correct for JSON; the parser rejects the rest. */
function isLight(bytes: Buffer, values_max: number): boolean {
  let [values, depth, bare] = [0, 0, 0]
  for (let at = 0; at < bytes.length; at += 1, bare += 1) {
    const byte = bytes[at]
    if (byte === QUOTE) at = endOfString(bytes, at + 1)
    else if (byte === COMMA) values += 1
    else if (byte === BRACKET || byte === BRACE) {
      values += 1
      depth += 1
    } else if (byte === BRACKET_END || byte === BRACE_END) depth -= 1
    if (values > values_max || depth > DEPTH_MAX || bare > BARE_BYTES_MAX) return false
  }
  return true
}

function endOfString(bytes: Buffer, from: number): number {
  let at = from
  for (let byte = bytes[at]; at < bytes.length && byte !== QUOTE; byte = bytes[at]) at += byte === BACKSLASH ? 2 : 1
  return at
}
