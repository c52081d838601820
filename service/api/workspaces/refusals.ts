import { decide, refusedAlways, type Command, type Decision, type RefusalReason } from '../../../contract/states/commands.ts'
import { fail, type Failure } from '../../lib/fail.ts'
import { activeOperation, seen, type WorkspaceRow } from './row.ts'

const MESSAGES: Record<RefusalReason, string> = {
  workspace_deleted: 'The workspace is deleted',
  not_supported_for_mode: "The workspace's mode does not support this",
  session_lifetime: 'A session workspace does not support this',
  not_session: 'Only a session workspace can be closed',
  operation_in_progress: 'Another operation of the workspace is in progress',
  workspace_not_running: 'The workspace is not running: it runs after a resume',
  not_running: 'The workspace is not running',
  already_running: 'The workspace is running already',
  not_suspended: 'The workspace is not suspended',
  not_forkable: 'Only a running or suspended workspace can be forked',
  not_snapshottable: 'Only a running or suspended workspace can be captured',
  not_resettable: 'Only a running or suspended workspace can be reset',
}

export type Allowed = Exclude<Decision, { kind: 'refuse' }>

export function allowed(row: WorkspaceRow, command: Command): Allowed {
  const decision = decide(seen(row), command)
  if (decision.kind === 'refuse') throw refusalOf(decision.reason, row, command)
  return decision
}

export function operateOn(
  row: WorkspaceRow,
  command: 'snapshot' | 'save_as_template' | 'restore' | 'adopt' | 'reset' | 'attach_volume' | 'detach_volume',
): Extract<Allowed, { kind: 'operate' }> {
  const decision = allowed(row, command)
  if (decision.kind !== 'operate') throw new Error(`${command} begins an operation or is refused`)
  return decision
}

const OF_FORKS: Partial<Record<RefusalReason, string>> = {
  workspace_deleted: 'The fork is deleted',
  not_supported_for_mode: 'A file-first workspace has no memory to go on from',
  operation_in_progress: 'Another operation of the fork is in progress',
  not_forkable: 'Only a fork that is running or suspended can be adopted',
}

export function allowedAsFork(fork: WorkspaceRow): void {
  const decision = decide(seen(fork), 'adopted')
  if (decision.kind === 'refuse') throw refusalOf(decision.reason, fork, 'adopted', OF_FORKS)
}

export function refuseAlways(row: WorkspaceRow, command: Command): void {
  const reason = refusedAlways(seen(row), command)
  if (reason !== null) throw refusalOf(reason, row, command)
}

/** A deleted workspace is reported before other problems of the request. */
export function refuseDeleted(row: WorkspaceRow, command: Command): void {
  if (row.deleted_at !== null) allowed(row, command)
}

/** Also used for a workspace whose row is gone. */
export function deleted(): Failure {
  return fail('conflict', 'workspace_deleted', MESSAGES.workspace_deleted)
}

function refusalOf(
  reason: RefusalReason,
  row: WorkspaceRow,
  command: Command,
  messages: Partial<Record<RefusalReason, string>> = MESSAGES,
): Failure {
  const message = messages[reason] ?? MESSAGES[reason]
  if (reason === 'not_supported_for_mode') {
    const operation = command === 'resume_and_wait' ? 'resume' : command === 'adopted' ? 'adopt' : command
    return fail('conflict', reason, message, { details: { mode: row.mode, operation } })
  }
  const active = reason === 'operation_in_progress' || reason === 'workspace_not_running' ? activeOperation(row) : null
  // App, "Reasons": retryable while an operation runs. Otherwise a suspended workspace needs a resume.
  if (active === null) return fail('conflict', reason, message, reason === 'workspace_not_running' ? { retryable: false } : {})
  return fail('conflict', reason, message, {
    operation_id: active.id,
    details: { active_operation_id: active.id, active_operation_kind: active.kind },
  })
}

export function inProgress(row: WorkspaceRow): Failure {
  return refusalOf('operation_in_progress', row, 'open')
}

export function joined(row: WorkspaceRow): string {
  if (row.op_id === null) throw new Error('only an operation in progress is joined')
  return row.op_id
}
