import { type CellCode, EXECUTION_REASONS, type ExecutionReason } from '../../../../contract/errors.ts'
import type { ExecutionError } from '../../../../contract/schemas/cell/execution.ts'
import { Failure } from '../../../lib/fail.ts'
import { AgentFailure } from '../../host/agent-failure.ts'
import { HostFailure } from '../../host/hostd.ts'
import { BlobError } from '../trees/blobs.ts'
import { fullMessage, TreeFull } from '../trees/full.ts'
import { TreeMoved } from '../trees/publish.ts'
import { ChangesRefused } from './changes.ts'

export class Unsuccessful extends Error {
  readonly state: 'failed' | 'lost'
  readonly reason: ExecutionReason

  constructor(state: 'failed' | 'lost', reason: ExecutionReason, message: string, options: { cause?: unknown } = {}) {
    super(message, options)
    this.state = state
    this.reason = reason
  }
}

/** No host has room. The command has not run. */
export class NoHost extends Error {}

const MESSAGES: Partial<Record<string, readonly [ExecutionReason, string]>> = {
  name_not_utf8: ['invalid_name', "A file's name, or the target of a link, is not UTF-8"],
  path_too_long: ['invalid_name', "A file's path is too long"],
  too_large: ['disk_full', "The workspace's files would be larger than its disk"],
  too_many_entries: ['too_many_changes', 'The command changed too many files'],
}

export function explain(error: unknown): Unsuccessful {
  if (error instanceof Unsuccessful) return error
  const options = { cause: error }
  if (error instanceof ChangesRefused) {
    const [reason, message] = MESSAGES[error.why] ?? ['internal_error' as const, 'The changes could not be read']
    return new Unsuccessful('failed', reason, message, options)
  }
  if (error instanceof BlobError) {
    const is_missing = error.kind === 'missing'
    return new Unsuccessful(
      'failed',
      is_missing ? 'blob_missing' : 'blob_corrupt',
      `A part of the tree is ${is_missing ? 'missing' : 'damaged'}`,
      options,
    )
  }
  if (error instanceof TreeFull) {
    return new Unsuccessful('failed', 'disk_full', fullMessage(error), options)
  }
  if (error instanceof TreeMoved) return new Unsuccessful('failed', 'tree_moved', 'The tree has moved on', options)
  if (error instanceof AgentFailure) return new Unsuccessful('lost', 'host_unreachable', 'The machine does not answer any more', options)
  if (error instanceof HostFailure) return ofHost(error)
  // Only the reserve of the disk is free, so the changes of the command cannot be stored.
  if (error instanceof Failure && error.code === 'dependency_unavailable')
    return new Unsuccessful('failed', 'disk_full', error.message, options)
  // Either the guest refused the name of a file, or a tree cannot contain the name.
  if (error instanceof Failure && error.reason === 'invalid_path') {
    return new Unsuccessful('failed', 'invalid_name', 'A name is none that a file can have', options)
  }
  if (error instanceof Failure && error.reason === 'guest_feature_unavailable') {
    return new Unsuccessful('failed', 'guest_feature_unavailable', error.message, options)
  }
  return new Unsuccessful('failed', 'internal_error', 'The command could not be run', options)
}

function ofHost(error: HostFailure): Unsuccessful {
  const options = { cause: error }
  switch (error.code) {
    case 'unreachable':
      return new Unsuccessful('lost', 'host_unreachable', 'The host does not answer', options)
    case 'fenced':
      return new Unsuccessful('lost', 'lease_expired', 'Another process has taken over', options)
    case 'disk_full':
      return new Unsuccessful('failed', 'disk_full', "The files do not fit the workspace's disk", options)
    case 'layer_missing':
      return new Unsuccessful('failed', 'layout_unsupported', 'The template is not on the host', options)
    default:
      return new Unsuccessful('failed', 'start_failed', 'The machine could not be started', options)
  }
}

/** The same command may succeed if the caller repeats it with another id. */
const RETRYABLE: ReadonlySet<ExecutionReason> = new Set([
  'start_failed',
  'tree_moved',
  'lease_expired',
  'host_unreachable',
  'host_restarted',
])

export function errorOf({ reason, message }: Pick<Unsuccessful, 'reason' | 'message'>): ExecutionError {
  const code: CellCode = EXECUTION_REASONS[reason]
  return { code, message, retryable: RETRYABLE.has(reason), details: { reason } }
}
