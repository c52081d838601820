import type { ErrorCode, Operation } from './schemas.ts'

/** Content of a refusal. It never contains a credential. */
export interface Refusal {
  status: number
  code: string
  message: string
  retryable: boolean
  request_id: string | null
  operation_id?: string | undefined
  details?: Record<string, unknown> | undefined
  retry_after_ms?: number | undefined
}

/** Base of all errors of this library. `code` and `reason` are for programs, the message is for people. */
export class BerthError extends Error {
  override readonly name: string = 'BerthError'
  readonly code: string
  readonly reason: string | null
  /** HTTP status; 0: there was no answer. */
  readonly status: number
  /** True if the same request may succeed later. */
  readonly retryable: boolean
  readonly requestId: string | null
  /** The operation that blocks the request, or that failed. */
  readonly operationId: string | null
  readonly details: Readonly<Record<string, unknown>>
  readonly retryAfterMs: number | null

  constructor(refusal: Refusal, options?: ErrorOptions) {
    super(refusal.message + issuesIn(refusal.details), options)
    const { details = {} } = refusal
    this.code = refusal.code
    this.reason = typeof details['reason'] === 'string' ? details['reason'] : null
    this.status = refusal.status
    this.retryable = refusal.retryable
    this.requestId = refusal.request_id
    const { active_operation_id } = details
    this.operationId = refusal.operation_id ?? (typeof active_operation_id === 'string' ? active_operation_id : null)
    this.details = details
    this.retryAfterMs = refusal.retry_after_ms ?? null
  }
}

export class BadRequestError extends BerthError {
  override readonly name = 'BadRequestError'
}
export class UnauthenticatedError extends BerthError {
  override readonly name = 'UnauthenticatedError'
}
export class PaymentRequiredError extends BerthError {
  override readonly name = 'PaymentRequiredError'
}
export class ForbiddenError extends BerthError {
  override readonly name = 'ForbiddenError'
}
export class NotFoundError extends BerthError {
  override readonly name = 'NotFoundError'
}
export class ConflictError extends BerthError {
  override readonly name = 'ConflictError'
}
/** The workspace is not available now: it is suspended, busy with an operation, or has another epoch. */
export class WorkspaceUnavailableError extends BerthError {
  override readonly name = 'WorkspaceUnavailableError'
}
export class TooLargeError extends BerthError {
  override readonly name = 'TooLargeError'
}
export class RangeError extends BerthError {
  override readonly name = 'RangeError'
}
export class ValidationError extends BerthError {
  override readonly name = 'ValidationError'
}
export class RateLimitedError extends BerthError {
  override readonly name = 'RateLimitedError'
}
/** The workspace's disk is full (reason `disk_full`): the call fails until files are removed. */
export class DiskFullError extends BerthError {
  override readonly name = 'DiskFullError'
}
/** Berth, or a service that it needs, cannot answer now. */
export class UnavailableError extends BerthError {
  override readonly name = 'UnavailableError'
}

/** There was no complete answer: code `connection_failed`. */
export class ConnectionError extends BerthError {
  override readonly name = 'ConnectionError'
  constructor(message: string, options?: ErrorOptions) {
    super({ status: 0, code: 'connection_failed', message, retryable: true, request_id: null }, options)
  }
}

/** The caller's time limit has passed: code `deadline_exceeded`. The request may still take effect. */
export class DeadlineError extends BerthError {
  override readonly name = 'DeadlineError'
  /** The command, execution or terminal that the call waited for: `ws.command(id)`, `ws.execution(id)`, `ws.terminal(id)`. */
  readonly sessionId: string | null
  /** The build that the call waited for: `berth.templates.waitForBuild(id)`. */
  readonly buildId: string | null
  constructor(message: string, { operation_id, session_id = null, build_id = null, ...options }: DeadlineOptions = {}) {
    super({ status: 0, code: 'deadline_exceeded', message, retryable: true, request_id: null, operation_id }, options)
    this.sessionId = session_id
    this.buildId = build_id
  }
}

interface DeadlineOptions extends ErrorOptions {
  operation_id?: string | undefined
  session_id?: string | null
  build_id?: string | null
}

/** An operation did not succeed. `code` and `details` are those of the operation. */
export class OperationError extends BerthError {
  override readonly name = 'OperationError'
  readonly operation: Operation
  constructor(operation: Operation) {
    const { code = 'canceled', message = `The operation ended ${operation.state}`, retryable = false, details } = operation.error ?? {}
    super({ status: 0, code, message, retryable, request_id: null, operation_id: operation.id, details })
    this.operation = operation
  }
}

const ISSUES_SHOWN_MAX = 5

/** Lists the invalid fields in the message, since logs often contain only that. */
function issuesIn({ issues }: Record<string, unknown> = {}): string {
  if (!Array.isArray(issues)) return ''
  const texts = (issues as unknown[]).flatMap((issue) => {
    const { path = '', message } = (issue ?? {}) as { path?: unknown; message?: unknown }
    return typeof message === 'string' ? [path === '' ? message : `${String(path)} ${message}`] : []
  })
  if (texts.length === 0) return ''
  const rest = texts.length > ISSUES_SHOWN_MAX ? `; and ${texts.length - ISSUES_SHOWN_MAX} more` : ''
  return `: ${texts.slice(0, ISSUES_SHOWN_MAX).join('; ')}${rest}`
}

const CLASSES: Record<ErrorCode, typeof BerthError> = {
  bad_request: BadRequestError,
  token_invalid: BadRequestError,
  unauthenticated: UnauthenticatedError,
  invalid_credentials: UnauthenticatedError,
  entitlement_required: PaymentRequiredError,
  allowance_exhausted: PaymentRequiredError,
  quota_exceeded: ForbiddenError,
  forbidden: ForbiddenError,
  mfa_required: ForbiddenError,
  email_unverified: ForbiddenError,
  step_up_required: ForbiddenError,
  not_found: NotFoundError,
  conflict: ConflictError,
  stale_epoch: WorkspaceUnavailableError,
  workspace_not_running: WorkspaceUnavailableError,
  workspace_busy: WorkspaceUnavailableError,
  payload_too_large: TooLargeError,
  unsupported_media_type: BadRequestError,
  range_not_satisfiable: RangeError,
  validation_failed: ValidationError,
  idempotency_mismatch: ValidationError,
  rate_limited: RateLimitedError,
  internal_error: UnavailableError,
  dependency_unavailable: UnavailableError,
  service_unavailable: UnavailableError,
  timeout: UnavailableError,
}

/** Creates the error of a reason's own class, else of the code's. An unknown code is a plain BerthError. */
export function errorOf(refusal: Refusal): BerthError {
  if (refusal.code === 'rate_limited' && refusal.details?.['reason'] === 'disk_full') return new DiskFullError(refusal)
  const known: Partial<Record<string, typeof BerthError>> = CLASSES
  return new (known[refusal.code] ?? BerthError)(refusal)
}

interface Envelope {
  error?: Partial<Omit<Refusal, 'status'>>
}

/** Reads an answer that is not 2xx. An answer of a proxy has no error envelope. */
export async function readError(response: Response): Promise<BerthError> {
  const text = await response.text().catch((cause: unknown) => new ConnectionError('The answer broke off', { cause }))
  if (text instanceof ConnectionError) return text
  const { status, headers } = response
  const retry_after = Number(headers.get('retry-after') ?? Number.NaN)
  const common = { status, retry_after_ms: Number.isFinite(retry_after) ? retry_after * 1000 : undefined }
  const { error } = parsed(text)
  if (typeof error?.code === 'string' && typeof error.message === 'string') {
    const { code, message, retryable = false, request_id = null, operation_id, details } = error
    return errorOf({ ...common, code, message, retryable, request_id, operation_id, details })
  }
  const retryable = [429, 502, 503, 504].includes(status)
  const code = retryable ? 'service_unavailable' : 'unexpected_answer'
  return errorOf({
    ...common,
    code,
    retryable,
    message: `The server answered ${status} without saying why`,
    request_id: headers.get('x-request-id'),
  })
}

function parsed(text: string): Envelope {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}
