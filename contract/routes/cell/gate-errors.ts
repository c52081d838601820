import { ALONE, type CellCode } from '../../errors.ts'
import type { CellRoute, RouteErrors } from '../../route.ts'
import { isReadOnly, serves } from '../../route.ts'
import { toolOf } from '../../access.ts'

/*
 * What the gate answers before any handler is asked, layer by layer in the order in which they refuse. No two layers say the same. Which
 * layers a route has follows from what it declares of itself, so that a route's own `errors` name only what its handler adds.
 */

/** Who calls, and for which workspace: every route. */
const CALLER = {
  unauthenticated: [null, 'revoked_watermark', 'revoked_workspace', 'revoked_api_key', 'revoked_api_key_tools'],
  forbidden: ALONE,
  not_found: ALONE,
  conflict: ['stale_endpoint'],
  stale_epoch: ALONE,
  rate_limited: ALONE,
  dependency_unavailable: ALONE,
  service_unavailable: [null, 'draining'],
} as const satisfies RouteErrors<CellCode>

/** The workspace is of a mode that the route does not serve. */
const OTHER_MODE = { conflict: ['not_supported_for_mode'] } as const satisfies RouteErrors<CellCode>

/** What the workspace does at the moment: every route that serves processful workspaces. */
const SITUATION = { workspace_busy: ALONE, workspace_not_running: ALONE } as const satisfies RouteErrors<CellCode>

/** Its machine is parked and cannot be woken. */
const WAKING = {
  workspace_busy: ['workspace_fenced'],
  service_unavailable: ['host_capacity', 'wake_failed'],
} as const satisfies RouteErrors<CellCode>

/** Its machine is asked: it may be silent, and may refuse in its own name with what is no reason of ours (its kernel forbids the call). */
const MACHINE = { conflict: ALONE, rate_limited: ['resource_limit'], timeout: ALONE } as const satisfies RouteErrors<CellCode>

/** The machine sleeps and its disk is read instead. */
const DISK = {
  workspace_not_running: ['offline_unavailable', 'offline_budget'],
  dependency_unavailable: ['offline_changed'],
} as const satisfies RouteErrors<CellCode>

/** A command runs on the tree that the call would change. */
const TREE_CHANGES = { workspace_busy: ['execution_in_progress'] } as const satisfies RouteErrors<CellCode>

/**
 * The layers of a route. Only a processful workspace has a situation, a machine and a disk to read. A route that serves file-first
 * workspaces alone gets the caller, the mode and the tree.
 */
export function gateErrors(route: CellRoute): RouteErrors<CellCode>[] {
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
