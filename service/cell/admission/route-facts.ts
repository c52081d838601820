import { toolOf } from '../../../contract/access.ts'
import { type CellRoute, type Route, serves } from '../../../contract/route.ts'
import { fail, type Failure } from '../../lib/fail.ts'
import type { WorkspaceEntry } from '../machines/table.ts'
import type { Needs } from './admit.ts'

/** A route with `machine: 'woken'` needs nothing here, because it wakes the machine by itself. */
export type NeedsOf<R extends CellRoute> = R extends { reads_disk: true } ? 'files' : R extends { machine: 'asked' } ? 'machine' : 'nothing'

export function needsOf({ reads_disk, machine }: CellRoute): Needs {
  if (reads_disk === true) return 'files'
  return machine === 'asked' ? 'machine' : 'nothing'
}

/** Cell, "Endpoints": a route that any tool may call is no tool activity. */
export function isToolCall(route: CellRoute): boolean {
  return toolOf(route) !== 'any'
}

export function placeOf({ streams }: CellRoute): 'call' | 'stream' {
  return streams === true ? 'stream' : 'call'
}

/** A permanent refusal, because the mode of a workspace never changes. */
export function modeRefusal(route: CellRoute, { mode }: Pick<WorkspaceEntry, 'mode'>): Failure | null {
  if (serves(route, mode)) return null
  const message = `This is for ${(route.modes ?? []).map((each) => each.replace('_', '-')).join(' and ')} workspaces`
  return fail('conflict', 'not_supported_for_mode', message, { details: { mode, operation: nounOf(route) } })
}

function nounOf({ path }: CellRoute): string {
  return path.split('/')[4] ?? '' // '', v1, workspaces, {workspace_id}, …
}

export function cellRouteOf(route: Route): CellRoute {
  if (route.surface !== 'cell') throw new Error(`${route.id} is no route of the gateway`)
  return route
}
