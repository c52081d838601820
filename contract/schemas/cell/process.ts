import { Type, type Static } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { Nullable, strict, Uuid, Enum } from '../common.ts'

const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

export const PROCESS_STATES = ['running', 'sleeping', 'waiting', 'stopped', 'traced', 'zombie', 'dead', 'unknown'] as const

/** Process ids are those inside the workspace. */
export const Process = Type.Object(
  {
    pid: Type.Integer({ minimum: 1 }),
    ppid: Type.Integer({ minimum: 0, description: '0: started by the service' }),
    user: Type.String({ description: 'Decimal uid where the workspace has no name for it' }),
    name: Type.String(),
    command: Type.Array(Type.String(), {
      description: `argv, of which the first ${LIMITS.process.command_bytes_max} bytes are told; what is not UTF-8 is U+FFFD; empty for a zombie`,
    }),
    command_truncated: Type.Boolean(),
    state: Enum(PROCESS_STATES),
    threads: Count,
    cpu_ms: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'User and system time together' }),
    memory_bytes: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'Resident' }),
    started_at: Type.String({ format: 'date-time' }),
    session_id: Nullable(Type.String({ description: 'Of the command that started it, or an ancestor of it' })),
  },
  { title: 'Process' },
)
export type Process = Static<typeof Process>

export const ProcessList = Type.Object(
  { processes: Type.Array(Process, { maxItems: LIMITS.process.list_max }), truncated: Type.Boolean() },
  { title: 'ProcessList' },
)
export type ProcessList = Static<typeof ProcessList>

export const ProcessListQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.process.list_max, default: LIMITS.process.list_default })),
})

export const ProcessParams = Type.Object({ workspace_id: Uuid(), pid: Type.String({ pattern: '^[1-9][0-9]{0,9}$' }) })

export const ProcessSignal = Type.Object({ signal: Type.String({ description: 'SIGTERM, or TERM' }) }, strict)
