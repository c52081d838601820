import { mayForbid } from './access.ts'
import { ALONE } from './errors.ts'
import type { Route, RouteErrors } from './route.ts'
import { gateErrors } from './routes/cell/gate-errors.ts'

/** Codes that a route may answer, with their reasons; null: the code without a reason. */
export type Errors = Record<string, (string | null)[]>

/** Returns the errors that follow from the route's conventions, without its own. */
function conventionErrors(route: Route): RouteErrors<string> {
  const { access } = route
  const app = route.surface === 'app'
  const takes_body = route.method !== 'GET'
  const parses_body = takes_body && route.body !== 'bytes' // a body must be absent or {} on other routes
  // Cell: bad parameters and unknown names are 400. App: 422, on every route because of its query.
  return {
    ...(app ? { rate_limited: ALONE } : {}), // App, "Limits": the edge may answer it on every route
    ...(access.kind === 'anyone' ? {} : { unauthenticated: ALONE, dependency_unavailable: ALONE }),
    ...(access.kind === 'principal' && access.unfinished !== true ? { mfa_required: ALONE, email_unverified: ALONE } : {}),
    ...(mayForbid(access)
      ? { forbidden: access.kind === 'principal' && access.refused_as !== undefined ? [access.refused_as] : ALONE }
      : {}),
    ...(access.kind === 'principal' && access.step_up === true ? { step_up_required: ALONE } : {}),
    ...(!app || route.params !== undefined || parses_body ? { bad_request: ALONE } : {}),
    ...(takes_body ? { payload_too_large: ALONE } : {}),
    ...(app && parses_body ? { unsupported_media_type: ALONE } : {}),
    ...(app || parses_body ? { validation_failed: ALONE } : {}),
    ...(app && route.idempotent ? { idempotency_mismatch: ALONE, conflict: ALONE } : {}),
    internal_error: ALONE,
  }
}

/** Merges a route's own errors with those of its conventions and, on the gateway, of admission. */
export function errorsOf(route: Route): Errors {
  const merged: Errors = {}
  const layers: RouteErrors<string>[] = [conventionErrors(route), ...(route.surface === 'cell' ? gateErrors(route) : []), route.errors]
  for (const errors of layers) {
    for (const [code, reasons = []] of Object.entries(errors)) merged[code] = [...new Set([...(merged[code] ?? []), ...reasons])]
  }
  return merged
}

export function declares(errors: Errors, code: string, reason: string | null): boolean {
  return errors[code]?.includes(reason) ?? false
}
