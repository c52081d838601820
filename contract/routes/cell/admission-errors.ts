import { NO_REASON, type CellCode } from '../../errors.ts'
import type { CellRoute, RouteErrors } from '../../route.ts'
import { isReadOnly, serves } from '../../route.ts'
import { toolOf } from '../../access.ts'

/** Refusals before any handler, in the order of the layers that refuse. A route's own `errors` list only those of its handler. */

const CALLER = {
  unauthenticated: [null, 'revoked_watermark', 'revoked_workspace', 'revoked_api_key', 'revoked_api_key_tools'],
  forbidden: NO_REASON,
  not_found: NO_REASON,
  conflict: ['stale_endpoint'],
  stale_epoch: NO_REASON,
  rate_limited: NO_REASON,
  dependency_unavailable: NO_REASON,
  service_unavailable: [null, 'draining'],
} as const satisfies RouteErrors<CellCode>

const OTHER_MODE = { conflict: ['not_supported_for_mode'] } as const satisfies RouteErrors<CellCode>

const SITUATION = { workspace_busy: NO_REASON, workspace_not_running: NO_REASON } as const satisfies RouteErrors<CellCode>

/** Refusals of routes that wake a parked machine. */
const WAKING = {
  workspace_busy: ['workspace_fenced'],
  service_unavailable: ['host_capacity', 'wake_failed'],
} as const satisfies RouteErrors<CellCode>

/** The guest's kernel may refuse a call, and the reason is not known. */
const MACHINE = { conflict: NO_REASON, rate_limited: ['resource_limit'], timeout: NO_REASON } as const satisfies RouteErrors<CellCode>

/** Refusals of routes that read a sleeping machine's disk. */
const DISK = {
  workspace_not_running: ['offline_unavailable', 'offline_budget'],
  dependency_unavailable: ['offline_changed'],
} as const satisfies RouteErrors<CellCode>

const TREE_CHANGES = { workspace_busy: ['execution_in_progress'] } as const satisfies RouteErrors<CellCode>

/** File-first workspaces have no state, machine or disk, and so none of these refusals. */
export function admissionErrors(route: CellRoute): RouteErrors<CellCode>[] {
  if (toolOf(route) === null) return []
  const tree = serves(route, 'file_first') && !isReadOnly(route) && (route.tree === true || route.modes !== undefined) ? [TREE_CHANGES] : []
  if (!serves(route, 'processful')) return [CALLER, OTHER_MODE, ...tree]
  return [
    CALLER,
    ...tree,
    ...(serves(route, 'file_first') ? [] : [OTHER_MODE]),
    SITUATION,
    ...(route.machine === undefined ? [] : [WAKING]),
    ...(route.machine === 'asked' ? [MACHINE] : []),
    ...(route.reads_disk === true ? [DISK] : []),
  ]
}
