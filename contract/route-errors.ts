import type { Route, RouteErrors } from './route.ts'
import { CALLER_ANSWERS, GATE_ANSWERS, WAKE_ANSWERS } from './routes/cell/gate-errors.ts'

/** Every code that a route may answer, with its reasons; null among them: the code alone. */
export type Errors = Record<string, (string | null)[]>

const BARE = [null]

/** What every route of a surface may answer because of the conventions it takes part in, beside its own errors. */
function conventionErrors(route: Route): RouteErrors<string> {
  const app = route.surface === 'app'
  const has_parameters = route.params !== undefined || route.query !== undefined
  const takes_body = route.method !== 'GET'
  const parses_body = takes_body && route.body !== 'bytes' // a body that no route names must be absent or {}
  // Cell: parameters and unknown fields are 400, and every route has parameters. App: all of them are 422.
  return {
    ...(app ? { rate_limited: BARE } : {}), // App, "Limits": the edge may answer so on all routes
    ...(route.auth === 'none' ? {} : { unauthenticated: BARE, dependency_unavailable: BARE }),
    ...(route.auth === 'principal' || route.auth === 'person' ? { mfa_required: BARE, email_unverified: BARE } : {}),
    ...(route.auth === 'person' ? { forbidden: BARE } : {}),
    ...(route.params !== undefined || parses_body ? { bad_request: BARE } : {}),
    ...(takes_body ? { payload_too_large: BARE } : {}),
    ...(app && parses_body ? { unsupported_media_type: BARE } : {}),
    ...((app && has_parameters) || parses_body || route.idempotent ? { validation_failed: BARE } : {}),
    ...(app && route.idempotent ? { idempotency_mismatch: BARE, conflict: BARE } : {}),
    internal_error: BARE,
  }
}

/** Its own errors, those of the conventions and, on the gateway, those of the gate. */
export function errorsOf(route: Route): Errors {
  const own: RouteErrors<string> = route.errors
  // Every workspace is processful: a route of another mode is refused before what the workspace does is looked at.
  const is_served = route.mode === undefined
  const gate: RouteErrors<string> = route.auth !== 'tool_token' ? {} : is_served ? GATE_ANSWERS : CALLER_ANSWERS
  const waking: RouteErrors<string> = !is_served || route.tool === undefined || route.tool === 'any' ? {} : WAKE_ANSWERS
  const merged: Errors = {}
  for (const errors of [conventionErrors(route), gate, waking, own]) {
    for (const [code, reasons = []] of Object.entries(errors)) {
      merged[code] = [...new Set([...(merged[code] ?? []), ...(reasons.length === 0 ? BARE : reasons)])]
    }
  }
  return merged
}

export function declares(errors: Errors, code: string, reason: string | null): boolean {
  return errors[code]?.includes(reason) ?? false
}
