import type { ColumnType, Generated } from 'kysely'
import type { Changed, ExecutionError, ExecutionTimings } from '../../contract/schemas/cell/execution.ts'
import type { Int8, JsonWithDefault, NullableJson } from './schema.ts'

/** Commands on trees, recorded before they run. */
export interface ExecutionsTable {
  workspace_id: string
  execution_id: string
  cell_id: string
  fingerprint: string
  state: Generated<'queued' | 'running' | 'succeeded' | 'failed' | 'lost'>
  base_revision: Int8
  tree_revision: ColumnType<number | null, number | null | undefined, number | null>
  exit_code: number | null
  term_signal: string | null
  timed_out: Generated<boolean>
  stdout: Generated<Buffer>
  stderr: Generated<Buffer>
  stdout_truncated: Generated<boolean>
  stderr_truncated: Generated<boolean>
  changed: JsonWithDefault<Changed[]>
  changed_truncated: Generated<boolean>
  timings: JsonWithDefault<Partial<ExecutionTimings>>
  error: NullableJson<ExecutionError>
  created_at: Date
  finished_at: Date | null
  argv: string[] | null
  argv_truncated: Generated<boolean>
  cwd: string | null
}
