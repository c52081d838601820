import type { ObservedState } from '../../../contract/states/machine.ts'
import { fail, type Failure } from '../../lib/fail.ts'
import type { WorkspaceEntry } from '../machines/table.ts'
import type { LiveMachine } from '../host/live-machine.ts'

export interface Wanted {
  cell_id: string
  /** True if the call is served during a snapshot. */
  read_only: boolean
  /** A refusal that is checked before the state of the workspace. */
  refusedBy(entry: WorkspaceEntry): Failure | null
}

/** `resident`: running or frozen. `parked`: must be restored first. `moving`: a state that will end. `refused`: waiting does not help. */
export type Situation =
  | { kind: 'resident'; machine: LiveMachine }
  | { kind: 'parked' }
  | { kind: 'machineless' }
  | { kind: 'moving' | 'suspended' | 'refused'; failure: Failure }

const STATES: Record<ObservedState, 'running' | 'moving' | 'suspended' | 'refused'> = {
  creating: 'moving',
  starting: 'moving',
  running: 'running',
  suspending: 'moving',
  suspended: 'suspended',
  resuming: 'moving',
  forking: 'moving',
  stopping: 'refused',
  failed: 'refused',
  deleting: 'refused',
  deleted: 'refused',
}

export function decideSituation(entry: WorkspaceEntry, wanted: Wanted): Situation {
  const failure = elsewhere(entry, wanted) ?? wanted.refusedBy(entry)
  if (failure !== null) return { kind: 'refused', failure }
  const busy = heldFrom(entry, wanted)
  if (busy !== null) return { kind: 'moving', failure: busy }
  const state = STATES[entry.observed_state]
  return state === 'running' ? whereItRuns(entry) : { kind: state, failure: notRunning(entry) }
}

/** null: the workspace can serve the call. */
export function refusalOf(situation: Situation): Failure | null {
  return 'failure' in situation ? situation.failure : null
}

function elsewhere(entry: WorkspaceEntry, wanted: Wanted): Failure | null {
  if (entry.here || entry.cell_id === null || entry.cell_id === wanted.cell_id) return null
  return fail('conflict', 'stale_endpoint', 'The workspace is served by another cell: read it again for its endpoint')
}

function heldFrom({ hold }: WorkspaceEntry, wanted: Wanted): Failure | null {
  if (hold === null || hold.gate === 'open' || (hold.gate === 'read_only' && wanted.read_only)) return null
  const { operation_id, operation_kind, gate } = hold
  return fail('workspace_busy', null, 'A lifecycle operation holds the workspace', {
    operation_id,
    details: { tool_gate: gate, ...(operation_kind === undefined ? {} : { operation_kind }) },
  })
}

function notRunning({ hold }: WorkspaceEntry): Failure {
  const operation = hold === null ? {} : { operation_id: hold.operation_id }
  return fail('workspace_not_running', null, 'The workspace is not running', operation)
}

function whereItRuns(entry: WorkspaceEntry): Situation {
  if (entry.mode === 'file_first') return { kind: 'machineless' }
  if (entry.residency !== 'resident') return { kind: 'parked' }
  const { machine } = entry
  // The host has not reported the machine yet, because the host or this process has restarted.
  if (machine === null || machine.epoch !== entry.ownership_epoch) return { kind: 'moving', failure: unreachable() }
  return { kind: 'resident', machine }
}

export function unreachable(): Failure {
  return fail('dependency_unavailable', null, 'The host of the workspace cannot be reached', { retry_after_seconds: 1 })
}
