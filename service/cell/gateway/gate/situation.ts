import { fail, type Failure } from '../../../lib/fail.ts'
import type { LiveMachine, WorkspaceEntry } from '../../machines/table.ts'

/** What a call asks of its workspace. */
export interface Wanted {
  /** The epoch that its token names. */
  ownership_epoch: number
  cell_id: string
  /** Changes nothing: served while a snapshot is captured. */
  read_only: boolean
  /** The mode of the workspaces that the call is for; null: of any. */
  mode: WorkspaceEntry['mode'] | null
}

/**
 * Whether a workspace serves a call as it stands: its machine, null for one that has to be restored first and for a call that needs
 * none, or the refusal that wins
 * (DECISIONS, "Order of refusals, Cell"). Pure.
 */
export function decideSituation(entry: WorkspaceEntry, wanted: Wanted): LiveMachine | null | Failure {
  const refused = elsewhere(entry, wanted) ?? staleEpoch(entry, wanted)
  if (refused !== null || isForAnotherMode(entry, wanted)) return refused
  return busy(entry, wanted) ?? running(entry)
}

/** Such a call is refused by its handler. A mode is for good: no machine, and no operation that ends, would change the answer. */
export function isForAnotherMode(entry: WorkspaceEntry, { mode }: Wanted): boolean {
  return mode !== null && mode !== entry.mode
}

function elsewhere(entry: WorkspaceEntry, wanted: Wanted): Failure | null {
  if (entry.here || entry.cell_id === null || entry.cell_id === wanted.cell_id) return null
  return fail('conflict', 'stale_endpoint', 'The workspace is served by another cell: read it again for its endpoint')
}

function staleEpoch(entry: WorkspaceEntry, wanted: Wanted): Failure | null {
  if (wanted.ownership_epoch === entry.ownership_epoch) return null
  // RELIABILITY T48: an epoch that has not been is no epoch of ours.
  if (wanted.ownership_epoch > entry.ownership_epoch) return fail('unauthenticated', null, 'The tool token is not valid')
  return fail('stale_epoch', null, 'The workspace was suspended, resumed or moved since the token was made: get a new one')
}

function busy({ hold }: WorkspaceEntry, wanted: Wanted): Failure | null {
  if (hold === null || hold.gate === 'open' || (hold.gate === 'read_only' && wanted.read_only)) return null
  return fail('workspace_busy', null, 'A lifecycle operation holds the workspace', {
    operation_id: hold.operation_id,
    details: { operation_kind: hold.operation_kind, tool_gate: hold.gate },
  })
}

function running(entry: WorkspaceEntry): LiveMachine | null | Failure {
  if (entry.observed_state !== 'running') {
    const operation = entry.hold === null ? {} : { operation_id: entry.hold.operation_id }
    return fail('workspace_not_running', null, 'The workspace is not running', operation)
  }
  if (entry.residency !== 'resident') return null
  // Running by the record, but the host has not said where: it is being asked, after a restart of this process or of its own.
  if (entry.machine === null || entry.machine.epoch !== entry.ownership_epoch) {
    return fail('dependency_unavailable', null, 'The host of the workspace cannot be reached', { retry_after_seconds: 1 })
  }
  return entry.machine
}
