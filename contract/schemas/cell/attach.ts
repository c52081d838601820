import { Type } from 'typebox'
import { strict, Enum } from '../common.ts'
import { LIMITS } from '../../limits.ts'
import { ExecStdin, Offset, OutputEvent, SHORT_SIGNALS, SIGNALS } from './session.ts'
import { Bytes } from './terminal.ts'

export const COMMAND_MESSAGES = {
  signal: Type.Object({ type: Type.Literal('signal'), signal: Enum([...SIGNALS, ...SHORT_SIGNALS]) }, strict),
  cancel: Type.Object({ type: Type.Literal('cancel') }, strict),
  stdin: Type.Object(
    { type: Type.Literal('stdin'), offset: Offset, data: Bytes(LIMITS.terminal.input_bytes_max, 0), close: Type.Optional(Type.Boolean()) },
    strict,
  ),
}

/** Each stdin message is answered by a `stdin` event. */
export const AttachEvent = Type.Union([...OutputEvent.anyOf, Type.Object({ type: Type.Literal('stdin'), ...ExecStdin.properties })])

export const ATTACH_PROTOCOL = 'berth.v1'
/** A tool token may be offered as a sub-protocol, because browsers cannot set the Authorization header of a WebSocket. */
export const BEARER_PROTOCOL_PREFIX = 'bearer.'
