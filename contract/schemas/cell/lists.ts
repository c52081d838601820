import { Type, type Static } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { List, Nullable, PageQuery, Enum } from '../common.ts'
import { Execution } from './execution.ts'
import { ExecSession } from './session.ts'
import { TerminalSession } from './terminal.ts'

export const RUN_STATES = ['running', 'ended'] as const

export const RunListQuery = Type.Object({
  state: Type.Optional(Enum(RUN_STATES, { description: '`running`: those that have not ended; `ended`: all others; absent: both' })),
  ...PageQuery,
})

const cut = Type.Boolean({ description: `argv is longer: its first ${LIMITS.exec.argv_listed_bytes} bytes are told` })

const { stdout_available_from: _stdout, stderr_available_from: _stderr, ...command } = ExecSession.properties

/** Lists never contain environment values, because the values are not stored. */
export const ListedCommand = Type.Object({ ...command, argv_truncated: cut }, { title: 'ListedCommand' })
export type ListedCommand = Static<typeof ListedCommand>
export const CommandList = List(ListedCommand, 'CommandList')
export type CommandList = Static<typeof CommandList>

const { output_available_from: _output, ...terminal } = TerminalSession.properties

export const ListedTerminal = Type.Object({ ...terminal, argv_truncated: cut }, { title: 'ListedTerminal' })
export type ListedTerminal = Static<typeof ListedTerminal>
export const TerminalList = List(ListedTerminal, 'TerminalList')
export type TerminalList = Static<typeof TerminalList>

const of = Execution.properties
const NOT_KEPT = 'null: it began before the service kept it'

export const ListedExecution = Type.Object(
  {
    execution_id: of.execution_id,
    argv: Nullable(Type.Array(Type.String(), { description: NOT_KEPT })),
    argv_truncated: cut,
    cwd: Nullable(Type.String({ description: NOT_KEPT })),
    state: of.state,
    base_revision: of.base_revision,
    tree_revision: of.tree_revision,
    exit_code: of.exit_code,
    term_signal: of.term_signal,
    timed_out: of.timed_out,
    error: of.error,
    created_at: of.created_at,
    finished_at: of.finished_at,
  },
  { title: 'ListedExecution' },
)
export type ListedExecution = Static<typeof ListedExecution>
export const ExecutionList = List(ListedExecution, 'ExecutionList')
export type ExecutionList = Static<typeof ExecutionList>
