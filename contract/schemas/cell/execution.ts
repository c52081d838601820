import { Type, type Static } from 'typebox'
import { EXECUTION_REASONS } from '../../errors.ts'
import { LIMITS } from '../../limits.ts'
import { Nullable, Enum } from '../common.ts'
import { FILE_CHANGES } from './change.ts'
import { EndFields } from './session.ts'

const { id_characters_min: shortest, id_characters_max: longest, changed_max } = LIMITS.execution

/** The caller chooses the id (Cell, "Execution"). */
export const EXECUTION_ID = `^[A-Za-z0-9][A-Za-z0-9._:-]{${shortest - 1},${longest - 1}}$`
export const ExecutionId = Type.String({ pattern: EXECUTION_ID })

export const EXECUTION_STATES = ['queued', 'running', 'succeeded', 'failed', 'lost'] as const
export type ExecutionState = (typeof EXECUTION_STATES)[number]

const Milliseconds = (description: string) => Type.Integer({ minimum: 0, description })

/** The change relative to the base revision. */
export const Changed = Type.Object({
  path: Type.String(),
  change: Enum(FILE_CHANGES),
  type: Enum(['file', 'directory', 'symlink']),
})
export type Changed = Static<typeof Changed>

export const ExecutionTimings = Type.Object({
  queued: Milliseconds('Until a host had room'),
  tree: Milliseconds("Until the host's copy of the files was at the base revision"),
  start: Milliseconds('Until the machine was ready'),
  run: Milliseconds('Of the command'),
  stop: Milliseconds('Until the machine had ended'),
  publish: Milliseconds('Until what it changed was the next revision'),
})
export type ExecutionTimings = Static<typeof ExecutionTimings>

export const ExecutionError = Type.Object({
  code: Type.String(),
  message: Type.String(),
  retryable: Type.Boolean({ description: 'Whether the same command may succeed under another execution_id' }),
  details: Type.Object({ reason: Enum(Object.keys(EXECUTION_REASONS) as (keyof typeof EXECUTION_REASONS)[]) }),
})
export type ExecutionError = Static<typeof ExecutionError>

export const Execution = Type.Object(
  {
    execution_id: ExecutionId,
    state: Enum(EXECUTION_STATES),
    base_revision: Type.Integer({ minimum: 0, description: 'That it runs on' }),
    tree_revision: Nullable(Type.Integer({ minimum: 0, description: 'After it; null unless it succeeded' })),
    exit_code: EndFields.exit_code,
    term_signal: EndFields.term_signal,
    timed_out: EndFields.timed_out,
    stdout: Type.String({ contentEncoding: 'base64', description: 'From its beginning, up to the limit' }),
    stderr: Type.String({ contentEncoding: 'base64', description: 'From its beginning, up to the limit' }),
    stdout_truncated: Type.Boolean(),
    stderr_truncated: Type.Boolean(),
    changed: Type.Array(Changed, { maxItems: changed_max, description: 'Of a directory that was deleted, only itself' }),
    changed_truncated: Type.Boolean(),
    timings: ExecutionTimings,
    error: Nullable(ExecutionError),
    created_at: Type.String({ format: 'date-time' }),
    finished_at: Nullable(Type.String({ format: 'date-time' })),
  },
  { title: 'Execution' },
)
export type Execution = Static<typeof Execution>
