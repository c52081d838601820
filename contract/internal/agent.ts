import Type from 'typebox'
import type { CellCode } from '../errors.ts'
import { Nullable } from '../schemas/common.ts'
import { Count } from './values.ts'

/**
 * Protocol versions of agents that hostd and cell support: machine/internal/wire/agent.go lists them. Increase `current` with every new or
 * changed call. hostd runs no machine whose agent has another version.
 */
export const AGENT_PROTOCOLS = { oldest: 1, current: 10 } as const

export const AgentError = Type.Object(
  {
    code: Type.String({ maxLength: 100 }),
    reason: Type.Optional(Type.String({ maxLength: 100 })),
    message: Type.String({ maxLength: 2000 }),
    details: Type.Optional(Nullable(Type.Record(Type.String(), Type.Unknown()))),
  },
  { title: 'AgentError', description: 'A refusal of an agent, with the gateway\'s own status, code and reason (Cell, "Errors").' },
)

/** Codes with which a guest may refuse a call. Only the gateway itself may use all other codes. */
export const AGENT_ERRORS = [
  'bad_request',
  'not_found',
  'conflict',
  'payload_too_large',
  'range_not_satisfiable',
  'validation_failed',
  'rate_limited',
  'internal_error',
  'timeout',
] as const satisfies readonly CellCode[]

const time = (description?: string) => Nullable(Type.String({ format: 'date-time', ...(description === undefined ? {} : { description }) }))

export const BusyCommand = Type.Object(
  { session_id: Type.String(), started_at: time(), busy_until: time() },
  { title: 'BusyCommand', description: 'A command that prevents an idle suspend.' },
)

const BUSY_COMMANDS_MAX = 16

export const Activity = Type.Object(
  {
    running_sessions: Count(),
    busy_until: time('The latest end: one hour or its own timeout per command; null: none runs.'),
    last_ended_at: time('Idleness begins then, even if no caller waited; null: none has ended.'),
    commands: Type.Array(BusyCommand, {
      maxItems: BUSY_COMMANDS_MAX,
      description: `At most ${BUSY_COMMANDS_MAX}, with the latest busy_until.`,
    }),
  },
  { title: 'Activity', description: 'Feeds the idle clock.' },
)
