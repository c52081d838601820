import { APP_CODES, CELL_CODES, isRetryable, type CodeRule, type Surface } from '../../contract/errors.ts'
import type { ErrorEnvelope } from '../../contract/schemas/error.ts'
import { fail, Failure } from '../lib/fail.ts'
import { databaseIsUnavailable } from './database-failure.ts'

export interface Refusal {
  status: number
  headers: Record<string, string>
  body: ErrorEnvelope
}

/** Converts a thrown value to a refusal. Unexpected errors become internal_error without details. */
export function asFailure(surface: Surface, thrown: unknown): Failure {
  if (thrown instanceof Failure && thrown.code in codesOf(surface)) return thrown
  if (databaseIsUnavailable(thrown)) {
    return fail('dependency_unavailable', null, 'The service cannot reach its database', { retry_after_seconds: 1, cause: thrown })
  }
  return fail('internal_error', null, 'The service met an unexpected error', { cause: thrown })
}

export function refusal(surface: Surface, failure: Failure, request_id: string): Refusal {
  const { options, code, reason } = failure
  const rule = codesOf(surface)[code]
  if (!rule) throw new Error(`${code} is no code of the ${surface} surface`)
  const details = {
    ...(reason === undefined ? {} : { reason }),
    ...(code === 'rate_limited' && options.retry_after_seconds !== undefined ? { retry_after_seconds: options.retry_after_seconds } : {}),
    ...options.details,
  }
  const error = {
    code,
    message: failure.message,
    request_id,
    retryable: options.retryable ?? isRetryable(surface, code, reason ?? null),
    ...(options.operation_id === undefined ? {} : { operation_id: options.operation_id }),
    ...(Object.keys(details).length === 0 ? {} : { details }),
  }
  const headers: Record<string, string> = { ...options.headers }
  if (options.retry_after_seconds !== undefined) headers['retry-after'] = String(options.retry_after_seconds)
  if (options.replayed === true) headers['idempotent-replayed'] = 'true'
  if (rule.status === 401) headers['www-authenticate'] = 'Bearer' // required by RFC 9110
  return { status: rule.status, headers, body: { error } }
}

function codesOf(surface: Surface): Partial<Record<string, CodeRule>> {
  return surface === 'app' ? APP_CODES : CELL_CODES
}
