import { OPERATION_ERRORS, type OperationErrorCode } from '../../../contract/errors.ts'
import type { OperationError } from '../../db/column-types.ts'
import type { HostFailure, HostFailureCode } from '../host/hostd.ts'
import { refusedMemory, WAY_OUT, type RefusedMemory } from '../host/memory-refusal.ts'

export function operationError(code: OperationErrorCode, message: string, details?: Record<string, unknown>): OperationError {
  return { code, message, retryable: OPERATION_ERRORS[code].retryable, ...(details === undefined ? {} : { details }) }
}

/** Thrown to undo the operation and to show this error to its caller. */
export class Refused extends Error {
  readonly error: OperationError

  constructor(error: OperationError) {
    super(error.message)
    this.error = error
  }
}

const STARTS: Partial<Record<HostFailureCode, [OperationErrorCode, string]>> = {
  checkpoint_corrupt: ['checkpoint_corrupt', 'The saved state of the workspace is damaged'],
  not_found: ['checkpoint_corrupt', 'The saved state of the workspace is missing'],
  checkpoint_incompatible: ['checkpoint_incompatible', 'The saved state of the workspace needs another engine or processor'],
  invalid_resources: ['invalid_resources', 'The workspace cannot run with these resources'],
  no_space: ['dependency_failed', 'The disk pool of the host is full'],
  disk_full: ['dependency_failed', 'The disk of the workspace is full, with what its checkpoints keep'],
  no_capacity: ['dependency_failed', 'The host had no room for the machine'],
}

export function startError(failure: HostFailure): OperationError {
  const memory = refusedMemory(failure)
  if (memory !== undefined) return memoryError(memory)
  const [code, message] = STARTS[failure.code] ?? ['dependency_failed', 'The host could not start the machine']
  const { why } = failure.details
  return operationError(code, message, { reason: typeof why === 'string' ? why : failure.code })
}

export function memoryError({
  why,
  because,
  workspace_id,
  checkpoint_id,
  without_memory,
  missing_features,
}: RefusedMemory): OperationError {
  const code = why === 'damaged' ? 'checkpoint_corrupt' : 'checkpoint_incompatible'
  const message = `The saved memory of the workspace cannot be restored: ${because}${without_memory ? `; ${WAY_OUT}` : ''}`
  return operationError(code, message, {
    reason: why,
    workspace_id,
    checkpoint_id,
    without_memory,
    ...(missing_features === undefined ? {} : { missing_features }),
  })
}

export function captureError(failure: HostFailure): OperationError {
  const { obstacle } = failure.details
  // The guest is the cause: a repeat fails until the guest closes the file.
  if (typeof obstacle === 'string') {
    const message = `The state could not be saved: ${obstacle} was removed, and a process holds it open. Close it, or end the process`
    return { ...operationError('checkpoint_failed', message, { reason: failure.code, obstacle }), retryable: false }
  }
  const why = FULL[failure.code]
  const message = why === undefined ? 'The state could not be saved' : `The state could not be saved: ${why}`
  return operationError('checkpoint_failed', message, { reason: failure.code })
}

const FULL: Partial<Record<HostFailureCode, string>> = {
  no_space: 'the disk pool of the host is full',
  disk_full: 'the disk of the workspace is full',
}

const CAPTURE_FAILURES: ReadonlySet<HostFailureCode> = new Set(['checkpoint_failed', 'not_running'] as const)

export function captureOrStartError(failure: HostFailure): OperationError {
  return CAPTURE_FAILURES.has(failure.code) ? captureError(failure) : startError(failure)
}

export const INTERRUPTED = operationError('interrupted', 'The operation was interrupted too often and has been rolled back')
