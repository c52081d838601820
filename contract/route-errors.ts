import type { Route, RouteErrors } from './route.ts'

type Errors = RouteErrors<string>

/** What every route of a surface may answer because of the conventions it takes part in, beside its own errors. */
function conventionErrors(route: Route): Errors {
  const app = route.surface === 'app'
  const reads_json = typeof route.body === 'object'
  const has_parameters = route.params !== undefined || route.query !== undefined
  const takes_body = route.method !== 'GET'
  return {
    ...(route.auth === 'none' ? {} : { unauthenticated: [], rate_limited: [] }),
    ...(route.auth === 'principal' || route.auth === 'person' ? { email_unverified: [] } : {}),
    ...(route.auth === 'person' ? { forbidden: [] } : {}),
    ...(app && takes_body ? { unsupported_media_type: [] } : {}),
    ...(takes_body || !app ? { bad_request: [], payload_too_large: [] } : { bad_request: [] }),
    ...(reads_json || has_parameters || takes_body || app ? { validation_failed: [] } : {}),
    ...(app && route.idempotent ? { idempotency_mismatch: [], conflict: [] } : {}),
    internal_error: [],
    dependency_unavailable: [],
  }
}

/** Every code, with the reasons beside it, that a route may answer: its own and those of the conventions. */
export function errorsOf(route: Route): Errors {
  const own: Errors = route.errors
  const merged: Record<string, readonly string[]> = {}
  for (const errors of [conventionErrors(route), own]) {
    for (const [code, reasons] of Object.entries(errors)) {
      merged[code] = [...new Set([...(merged[code] ?? []), ...(reasons ?? [])])]
    }
  }
  return merged
}
