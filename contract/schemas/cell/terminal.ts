import { Type, type Static } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { Nullable, strict } from '../common.ts'
import { EndFields, Env, Offset, SessionId, COMMON_STREAM_EVENTS } from './session.ts'

const Size = Type.Integer({ minimum: 1, maximum: LIMITS.terminal.size_max })

export const TerminalStart = Type.Object(
  {
    session_id: Type.Optional(SessionId),
    argv: Type.Optional(
      Type.Array(Type.String(), { minItems: 1, maxItems: LIMITS.exec.argv_max, description: "The user's login shell when absent" }),
    ),
    cwd: Type.Optional(Type.String({ description: 'Absolute path, /home/user when absent' })),
    env: Type.Optional(Env),
    user: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
    cols: Type.Optional(Size),
    rows: Type.Optional(Size),
    secret_refs: Type.Optional(Type.Array(Type.String({ maxLength: 200 }), { maxItems: LIMITS.secret.per_workspace_max })),
  },
  { ...strict, title: 'TerminalStart' },
)
export type TerminalStart = Static<typeof TerminalStart>

export const TerminalSize = Type.Object({ cols: Size, rows: Size }, { ...strict, title: 'TerminalSize' })
export type TerminalSize = Static<typeof TerminalSize>

export const Bytes = (bytes_max: number, characters_min: number) =>
  Type.String({
    contentEncoding: 'base64',
    pattern: '^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$',
    minLength: characters_min,
    description: `base64 of at most ${bytes_max} bytes`,
  })

const Typed = Bytes(LIMITS.terminal.input_bytes_max, 1)

export const TerminalInput = Type.Object({ data: Typed }, { ...strict, title: 'TerminalInput' })

const { state, exit_code, term_signal, started_at, ended_at, error } = EndFields

/** The `exit` event contains the same fields. */
export const TerminalEnding = { state, exit_code, term_signal, started_at, ended_at, error, output_bytes: Offset }

export const TerminalSession = Type.Object(
  {
    session_id: SessionId,
    argv: Type.Array(Type.String()),
    cwd: Type.String(),
    user: Type.String(),
    pid: Nullable(Type.Integer({ minimum: 1 })),
    cols: Type.Integer({ minimum: 1 }),
    rows: Type.Integer({ minimum: 1 }),
    ...TerminalEnding,
    output_available_from: Offset,
  },
  { title: 'TerminalSession' },
)
export type TerminalSession = Static<typeof TerminalSession>

export const TerminalEvent = Type.Union([
  Type.Object({ type: Type.Literal('output'), offset: Offset, data: Type.String({ contentEncoding: 'base64' }) }),
  Type.Object({ type: Type.Literal('exit'), ...TerminalEnding }),
  ...COMMON_STREAM_EVENTS,
])
export type TerminalEvent = Static<typeof TerminalEvent>

export const TERMINAL_MESSAGES = {
  input: Type.Object({ type: Type.Literal('input'), data: Typed }, strict),
  resize: Type.Object({ type: Type.Literal('resize'), cols: Size, rows: Size }, strict),
}
