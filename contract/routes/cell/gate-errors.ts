import type { CellCode } from '../../errors.ts'
import type { RouteErrors } from '../../route.ts'

/**
 * 409 `conflict` of any call that asks the machine: the gate's reason, and none where a guest refuses in its own name with what is no
 * reason of ours (its kernel may forbid what a route asks for).
 */
export const GATE_CONFLICTS = [null, 'stale_endpoint'] as const

/** Of a call that an agent of an old checkpoint, which lives on in the workspace's memory, may not know. */
export const FEATURE_CONFLICTS = [...GATE_CONFLICTS, 'guest_feature_unavailable'] as const

/** What the gate may answer before it looks at what the workspace does. */
export const CALLER_ANSWERS = {
  unauthenticated: [null, 'revoked_watermark', 'revoked_workspace', 'revoked_api_key', 'revoked_api_key_tools'],
  forbidden: [],
  not_found: [],
  conflict: ['stale_endpoint'],
  stale_epoch: [],
  dependency_unavailable: [],
  service_unavailable: [null, 'draining'],
} as const satisfies RouteErrors<CellCode>

/** What the gate may answer before any route is asked. Every route that serves a workspace declares it, whatever it declares itself. */
export const GATE_ANSWERS = {
  ...CALLER_ANSWERS,
  workspace_busy: [],
  workspace_not_running: [],
  rate_limited: [],
} as const satisfies RouteErrors<CellCode>

/** What a call is refused with whose machine is parked and cannot be woken: every call that needs its machine. */
export const WAKE_ANSWERS = {
  workspace_busy: ['workspace_fenced'],
  service_unavailable: ['host_capacity', 'wake_failed'],
} as const satisfies RouteErrors<CellCode>

/** What any call that asks the machine may end in, beside the gate's own answers. */
export const GATE_ERRORS = {
  ...GATE_ANSWERS,
  internal_error: [],
  timeout: [],
} as const satisfies RouteErrors<CellCode>
