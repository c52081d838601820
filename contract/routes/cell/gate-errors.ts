import type { CellCode } from '../../errors.ts'
import type { RouteErrors } from '../../route.ts'

/** What the gate may answer before any route is asked, and what any call to a machine may end in. */
export const GATE_ERRORS = {
  unauthenticated: ['revoked_watermark', 'revoked_workspace', 'revoked_api_key', 'revoked_api_key_tools'],
  forbidden: [],
  not_found: [],
  stale_epoch: [],
  workspace_busy: [],
  workspace_not_running: [],
  rate_limited: [],
  internal_error: [],
  dependency_unavailable: [],
  service_unavailable: ['draining'],
  timeout: [],
} as const satisfies RouteErrors<CellCode>

/** Reasons of 409 `conflict` that the gate itself may give. */
export const GATE_CONFLICTS = ['stale_endpoint'] as const
