import type { DetailsOf } from '../../contract/details.ts'
import type { AppCode, CellCode, IsOne, ReasonOf } from '../../contract/errors.ts'

export interface FailureOptions {
  details?: Record<string, unknown>
  operation_id?: string
  /** Overrides the declared value, for the two retryable 409s without a reason (App, "409 conflict reasons"). */
  retryable?: boolean
  retry_after_seconds?: number
  /** True: the response repeats the one to an earlier request with the same Idempotency-Key. */
  replayed?: boolean
  headers?: Record<string, string>
  cause?: unknown
}

/** A refusal for the caller. Only the pipeline converts it to the error envelope. */
export class Failure extends Error {
  readonly code: AppCode | CellCode
  readonly reason: string | undefined
  readonly options: FailureOptions

  constructor(code: AppCode | CellCode, reason: string | undefined, message: string, options: FailureOptions = {}) {
    super(message, { cause: options.cause })
    this.code = code
    this.reason = reason
    this.options = options
  }
}

type Nothing = Readonly<Record<string, never>>
/** The details that the contract declares for code and reason; any details if the code is known only at run time. */
type DetailsFor<C extends AppCode | CellCode, R> = IsOne<C> extends true ? DetailsOf<C, R> : NonNullable<FailureOptions['details']>
type OptionsOf<D> = Omit<FailureOptions, 'details'> & (Nothing extends D ? { details?: D } : { details: D })
type Given<C extends AppCode | CellCode, R> =
  Nothing extends DetailsFor<C, R> ? [options?: OptionsOf<DetailsFor<C, R>>] : [options: OptionsOf<DetailsFor<C, R>>]

/**
 * Creates a refusal: `throw fail('conflict', 'already_running', 'The workspace is already running')`.
 * @param reason becomes `details.reason`, and must be one of the code's; null if the code is used alone.
 * @param message a plain English sentence for people, without secrets or internal names.
 */
export function fail<C extends AppCode | CellCode, R extends ReasonOf<C> | null>(
  code: C,
  reason: R,
  message: string,
  ...[options]: Given<C, R>
): Failure {
  return new Failure(code, reason ?? undefined, message, options)
}
