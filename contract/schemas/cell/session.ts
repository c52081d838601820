import { Type, type Static } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { Nullable, strict, Uuid, Enum } from '../common.ts'

export const SessionId = Type.String({ pattern: `^[A-Za-z0-9._:-]{1,${LIMITS.exec.session_id_characters_max}}$` })

/** Default user of commands: every platform template has it. */
export const DEFAULT_USER = 'user'
export const DEFAULT_CWD = '/home/user'

/** Prefix of the service's own commands. Callers can read such commands, but cannot start them. */
export const RESERVED_SESSION_PREFIX = 'sfstart.'

/** Type.Record is not used, because its pattern accepts names with a line break. */
export const Env = Type.Unsafe<Record<string, string>>({
  type: 'object',
  additionalProperties: { type: 'string' },
  maxProperties: LIMITS.exec.env_max,
})

/** `execution_id` and `output_limit_bytes` are for file-first workspaces only. */
export const ExecStart = Type.Object(
  {
    session_id: Type.Optional(SessionId),
    argv: Type.Array(Type.String(), { minItems: 1, maxItems: LIMITS.exec.argv_max }),
    cwd: Type.Optional(Type.String({ description: 'Absolute path, /home/user when absent' })),
    env: Type.Optional(Env),
    user: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
    stdin: Type.Optional(Type.String({ description: '1 MiB at most; then closed' })),
    stdin_encoding: Type.Optional(Enum(['utf8', 'base64'])),
    stdin_open: Type.Optional(
      Type.Boolean({ description: 'It is not closed after `stdin`: more may be sent, until it is closed or the command ends' }),
    ),
    timeout_ms: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.exec.timeout_ms_max })),
    kill_grace_ms: Type.Optional(Type.Integer({ minimum: 0, maximum: LIMITS.exec.kill_grace_ms_max })),
    secret_refs: Type.Optional(Type.Array(Type.String({ maxLength: 200 }), { maxItems: LIMITS.secret.per_workspace_max })),
    execution_id: Type.Optional(Type.String({ description: 'File-first: required, 8 to 128 characters' })),
    output_limit_bytes: Type.Optional(
      Type.Integer({ description: `File-first: of stdout and stderr each, 1 to ${LIMITS.execution.output_bytes_max}` }),
    ),
  },
  { ...strict, title: 'ExecStart' },
)
export type ExecStart = Static<typeof ExecStart>

export const Offset = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

export const SESSION_STATES = ['running', 'exited', 'failed_to_start', 'lost'] as const

/** The machine kills processes that exceed these limits. */
export const EXIT_REASONS = ['out_of_memory', 'process_limit'] as const

/** The `exit` event contains the same fields. */
export const EndFields = {
  state: Enum(SESSION_STATES),
  exit_code: Nullable(Type.Integer({ description: '-1 when a signal ended the command' })),
  term_signal: Nullable(Type.String({ pattern: '^SIG[A-Z0-9+-]{1,12}$' })),
  timed_out: Type.Boolean(),
  reason: Type.Optional(
    Enum(EXIT_REASONS, {
      description:
        'It failed, and a process of it had been ended: the workspace was about to be out of memory, or had more processes than it may',
    }),
  ),
  started_at: Nullable(Type.String({ format: 'date-time' })),
  ended_at: Nullable(Type.String({ format: 'date-time' })),
  error: Nullable(Type.String({ description: 'Why the command could not start' })),
  stdout_bytes: Offset,
  stderr_bytes: Offset,
}

/** hostd sets the limit at each start of a machine. */
const AvailableFrom = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description:
    'First byte that is still retained. A workspace retains output up to the smaller of 2 GiB and a quarter of its disk, three quarters of that for all its commands together and the rest for its terminals; the oldest commands that have ended give theirs up first, unless those that run hold more than half.',
})

export const ExecStdin = Type.Object(
  {
    offset: Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'Bytes taken so far, those of `stdin` at the start among them; the command may not have read them yet',
    }),
    open: Type.Boolean(),
  },
  { title: 'ExecStdin' },
)
export type ExecStdin = Static<typeof ExecStdin>

export const ExecStdinQuery = Type.Object({
  offset: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'Of the first byte of the body' }),
  close: Type.Optional(Type.Boolean({ default: false, description: 'Nothing comes after these bytes' })),
})

export const ExecSession = Type.Object(
  {
    session_id: SessionId,
    argv: Type.Array(Type.String()),
    cwd: Type.String(),
    user: Type.String(),
    pid: Nullable(Type.Integer({ minimum: 1 })),
    ...EndFields,
    stdout_available_from: AvailableFrom,
    stderr_available_from: AvailableFrom,
    stdin: Type.Optional(ExecStdin),
  },
  { title: 'ExecSession' },
)
export type ExecSession = Static<typeof ExecSession>

export const ExecSignal = Type.Object({ signal: Type.String({ description: 'SIGTERM, or TERM' }) }, strict)

export const ExecParams = Type.Object({ workspace_id: Uuid(), session_id: SessionId })

export const ExecOutputQuery = Type.Object({
  stdout_offset: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, default: 0 })),
  stderr_offset: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, default: 0 })),
  follow: Type.Optional(Type.Boolean({ default: true })),
})

export const COMMON_STREAM_EVENTS = [
  Type.Object({ type: Type.Literal('heartbeat') }),
  Type.Object({
    type: Type.Literal('error'),
    error: Type.Object({
      code: Type.String(),
      message: Type.String(),
      request_id: Type.String(),
      retryable: Type.Boolean(),
      operation_id: Type.Optional(Type.String({ format: 'uuid' })),
      details: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    }),
  }),
]

/** Offsets increase without gaps. */
export const OutputEvent = Type.Union([
  Type.Object({
    type: Type.Literal('output'),
    stream: Enum(['stdout', 'stderr']),
    offset: Offset,
    data: Type.String({ contentEncoding: 'base64' }),
  }),
  Type.Object({ type: Type.Literal('exit'), ...EndFields }),
  ...COMMON_STREAM_EVENTS,
])
export type OutputEvent = Static<typeof OutputEvent>

/** Signals that all supported systems have. */
export const SIGNALS = [
  'SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGILL', 'SIGTRAP', 'SIGABRT', 'SIGBUS', 'SIGFPE', 'SIGKILL', 'SIGUSR1', 'SIGSEGV', 'SIGUSR2',
  'SIGPIPE', 'SIGALRM', 'SIGTERM', 'SIGCHLD', 'SIGCONT', 'SIGSTOP', 'SIGTSTP', 'SIGTTIN', 'SIGTTOU', 'SIGURG', 'SIGXCPU', 'SIGXFSZ',
  'SIGVTALRM', 'SIGPROF', 'SIGWINCH', 'SIGIO', 'SIGPWR', 'SIGSYS',
] as const // prettier-ignore

export const SHORT_SIGNALS = SIGNALS.map((signal) => signal.slice('SIG'.length))

/** @returns undefined for an unknown name. */
export function signalOf(name: string): string | undefined {
  return SIGNALS.find((signal) => signal === name || signal === `SIG${name}`)
}
