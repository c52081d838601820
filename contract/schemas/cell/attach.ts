import { Type } from 'typebox'
import { strict, Word } from '../common.ts'
import { LIMITS } from '../../limits.ts'
import { ExecStdin, Offset, OutputEvent, SHORT_SIGNALS, SIGNALS } from './session.ts'
import { Bytes } from './terminal.ts'

/** What a client may say on an attached command, by its `type`. */
export const COMMAND_MESSAGES = {
  signal: Type.Object({ type: Type.Literal('signal'), signal: Word([...SIGNALS, ...SHORT_SIGNALS]) }, strict),
  cancel: Type.Object({ type: Type.Literal('cancel') }, strict),
  stdin: Type.Object(
    { type: Type.Literal('stdin'), offset: Offset, data: Bytes(LIMITS.terminal.input_bytes_max, 0), close: Type.Optional(Type.Boolean()) },
    strict,
  ),
}

/** What an attached command says: its output, and for each message of stdin how far that came. */
export const AttachEvent = Type.Union([...OutputEvent.anyOf, Type.Object({ type: Type.Literal('stdin'), ...ExecStdin.properties })])

/** The sub-protocol that a client offers and is given. */
export const ATTACH_PROTOCOL = 'berth.v1'
/** Before a tool token that is offered as a sub-protocol beside it, since browsers cannot set the header. */
export const BEARER_PROTOCOL_PREFIX = 'bearer.'
