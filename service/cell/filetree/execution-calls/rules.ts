import { createHash } from 'node:crypto'
import { posix } from 'node:path'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Execution } from '../../../../contract/schemas/cell/execution.ts'
import type { ListedExecution } from '../../../../contract/schemas/cell/lists.ts'
import { EXECUTION_ID } from '../../../../contract/schemas/cell/execution.ts'
import type { ExecStart } from '../../../../contract/schemas/cell/session.ts'
import { fail, type Failure } from '../../../lib/fail.ts'
import type { ExecutionPlace, ExecutionRow, ListedRow, ShownCommand } from '../executions/store.ts'
import { TREE_ROOT } from '../trees/paths.ts'
import { type AskedCommand, plainCommandOf } from '../../gateway/exec/rules.ts'
import { notACursor } from '../tree-calls/history.ts'

export interface AskedExecution {
  execution_id: string
  fingerprint: string
  output_limit_bytes: number
  asked: AskedCommand
  shown: ShownCommand
}

const ID = new RegExp(EXECUTION_ID)

export function executionOf(body: ExecStart): AskedExecution {
  const { execution_id, output_limit_bytes = LIMITS.execution.output_bytes_default } = body
  if (execution_id === undefined) throw invalid('execution_id', 'is required on a file-first workspace')
  if (!ID.test(execution_id)) throw invalid('execution_id', 'must be 8 to 128 of A-Z a-z 0-9 . _ : -, the first a letter or digit')
  if (output_limit_bytes < 1 || output_limit_bytes > LIMITS.execution.output_bytes_max) {
    throw invalid('output_limit_bytes', `must be from 1 to ${LIMITS.execution.output_bytes_max}`)
  }
  if (body.stdin_open) throw stdinOpen()
  const { session_id: _ignored, ...command } = body
  const asked = plainCommandOf(command, 'execution')
  refuseOutside(asked.cwd)
  const timeout_ms = asked.timeout_ms === 0 ? LIMITS.execution.timeout_ms_default : (asked.timeout_ms ?? 0)
  const fingerprint = createHash('sha256')
    .update(JSON.stringify([asked.fingerprint, output_limit_bytes]))
    .digest('hex')
  const shown = { ...shownArgv(asked.argv), cwd: asked.cwd }
  return { execution_id, fingerprint, output_limit_bytes, asked: { ...asked, timeout_ms }, shown }
}

/** A command may only start inside the tree. The rest of the machine does not belong to the caller (Cell, "Execution"). */
function refuseOutside(cwd: string): void {
  const plain = posix.normalize(cwd)
  if (plain === TREE_ROOT || plain.startsWith(`${TREE_ROOT}/`)) return
  throw fail('validation_failed', 'invalid_cwd', `cwd must be ${TREE_ROOT} or below it`, { details: { field: 'cwd' } })
}

/** Refused, because a command on a tree receives its whole input with the request. */
function stdinOpen(): Failure {
  return fail('validation_failed', 'not_supported_for_mode', 'stdin_open is for workspaces that have processes', {
    details: { field: 'stdin_open', mode: 'file_first', operation: 'exec' },
  })
}

function invalid(path: string, message: string): Failure {
  return fail('validation_failed', null, 'The request is not valid', { details: { issues: [{ path, message }] } })
}

const NO_TIME = { queued: 0, tree: 0, start: 0, run: 0, stop: 0, publish: 0 }

export function viewOf({ fingerprint: _kept, ...row }: ExecutionRow): Execution {
  return {
    ...row,
    stdout: row.stdout.toString('base64'),
    stderr: row.stderr.toString('base64'),
    timings: { ...NO_TIME, ...row.timings },
    created_at: row.created_at.toISOString(),
    finished_at: row.finished_at?.toISOString() ?? null,
  }
}

/** The limits equal those of machine/internal/agent/listing. */
export function shownArgv(argv: readonly string[]): Pick<ShownCommand, 'argv' | 'argv_truncated'> {
  const told: string[] = []
  let left: number = LIMITS.exec.argv_listed_bytes
  for (const word of argv) {
    left -= 1 // otherwise empty arguments would have no limit
    if (left <= 0) return { argv: told, argv_truncated: true }
    const bytes = Buffer.from(word)
    if (bytes.length > left) {
      let end = left
      while (end > 0 && isContinuation(bytes[end])) end -= 1
      return { argv: [...told, bytes.toString('utf8', 0, end)], argv_truncated: true }
    }
    told.push(word)
    left -= bytes.length
  }
  return { argv: told, argv_truncated: false }
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80
}

export function listedOf(row: ListedRow): ListedExecution {
  return { ...row, created_at: row.created_at.toISOString(), finished_at: row.finished_at?.toISOString() ?? null }
}

export function cursorOf({ created_at, execution_id }: ExecutionPlace): string {
  return Buffer.from(`${created_at.getTime()} ${execution_id}`).toString('base64url')
}

export function placeOf(cursor: string): ExecutionPlace {
  const [, at, execution_id = ''] = /^(\d{1,15}) (.*)$/s.exec(Buffer.from(cursor, 'base64url').toString()) ?? []
  if (at === undefined || !ID.test(execution_id)) throw notACursor()
  return { created_at: new Date(Number(at)), execution_id }
}
