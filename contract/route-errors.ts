import { mayForbid } from './access.ts'
import { NO_REASON } from './errors.ts'
import type { Route, RouteErrors } from './route.ts'
import { admissionErrors } from './routes/cell/admission-errors.ts'

export type Errors = Record<string, (string | null)[]>

function conventionErrors(route: Route): RouteErrors<string> {
  const { access } = route
  const app = route.surface === 'app'
  const takes_body = route.method !== 'GET'
  const parses_body = takes_body && route.body !== 'bytes' // on other routes the body must be absent or {}
  // Bad parameters are 400 on cell routes and 422 on app routes, which all have a query.
  return {
    ...(app ? { rate_limited: NO_REASON } : {}), // the edge may refuse a call of any route (App, "Limits")
    ...(access.kind === 'anyone' ? {} : { unauthenticated: NO_REASON, dependency_unavailable: NO_REASON }),
    ...(access.kind === 'principal' && access.unfinished !== true ? { mfa_required: NO_REASON, email_unverified: NO_REASON } : {}),
    ...(mayForbid(access)
      ? { forbidden: access.kind === 'principal' && access.refused_as !== undefined ? [access.refused_as] : NO_REASON }
      : {}),
    ...(access.kind === 'principal' && access.step_up === true ? { step_up_required: NO_REASON } : {}),
    ...(!app || route.params !== undefined || parses_body ? { bad_request: NO_REASON } : {}),
    ...(takes_body ? { payload_too_large: NO_REASON } : {}),
    ...(app && parses_body ? { unsupported_media_type: NO_REASON } : {}),
    ...(app || parses_body ? { validation_failed: NO_REASON } : {}),
    ...(app && route.idempotent ? { idempotency_mismatch: NO_REASON, conflict: NO_REASON } : {}),
    internal_error: NO_REASON,
  }
}

export function errorsOf(route: Route): Errors {
  const merged: Errors = {}
  const layers: RouteErrors<string>[] = [conventionErrors(route), ...(route.surface === 'cell' ? admissionErrors(route) : []), route.errors]
  for (const errors of layers) {
    for (const [code, reasons = []] of Object.entries(errors)) merged[code] = [...new Set([...(merged[code] ?? []), ...reasons])]
  }
  return merged
}

export function declares(errors: Errors, code: string, reason: string | null): boolean {
  return errors[code]?.includes(reason) ?? false
}
