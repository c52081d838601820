import { Type } from 'typebox'
import { strict, Word } from '../common.ts'
import { SIGNALS } from './session.ts'

/** What a client may say on an attached command, by its `type`. */
export const COMMAND_MESSAGES = {
  signal: Type.Object({ type: Type.Literal('signal'), signal: Word(SIGNALS) }, strict),
  cancel: Type.Object({ type: Type.Literal('cancel') }, strict),
}

/** The sub-protocol that a client offers and is given. */
export const ATTACH_PROTOCOL = 'berth.v1'
/** Before a tool token that is offered as a sub-protocol beside it, since browsers cannot set the header. */
export const BEARER_PROTOCOL_PREFIX = 'bearer.'
