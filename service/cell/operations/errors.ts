import { OPERATION_ERRORS, type OperationErrorCode } from '../../../contract/errors.ts'
import type { OperationError } from '../../db/schema.ts'
import type { HostFailure, HostFailureCode } from '../links/hostd.ts'

export function operationError(code: OperationErrorCode, message: string, details?: Record<string, unknown>): OperationError {
  return { code, message, retryable: OPERATION_ERRORS[code].retryable, ...(details === undefined ? {} : { details }) }
}

/** The operation cannot be done, for a reason that the caller is to read: it is undone with that error. */
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
  no_capacity: ['dependency_failed', 'The host had no room for the machine'],
}

/** Why a start or restore failed, in the caller's terms. */
export function startError(failure: HostFailure): OperationError {
  const [code, message] = STARTS[failure.code] ?? ['dependency_failed', 'The host could not start the machine']
  return operationError(code, message, { reason: failure.code })
}

/** Why the state could not be saved. */
export function captureError(failure: HostFailure): OperationError {
  const message =
    failure.code === 'no_space' ? 'The state could not be saved: the disk pool of the host is full' : 'The state could not be saved'
  return operationError('checkpoint_failed', message, { reason: failure.code })
}

const CAPTURE_FAILURES: ReadonlySet<HostFailureCode> = new Set(['checkpoint_failed', 'not_running'] as const)

/** For what first captures one machine and then starts another. */
export function captureOrStartError(failure: HostFailure): OperationError {
  return CAPTURE_FAILURES.has(failure.code) ? captureError(failure) : startError(failure)
}

export const INTERRUPTED = operationError('interrupted', 'The operation was interrupted too often and has been rolled back')
