import type { ObservedState } from '../../../contract/states/machine.ts'
import type { OperationKind } from '../../../contract/states/operation.ts'
import type { Resources } from '../../db/column-types.ts'
import type { Background } from './residency-rules.ts'
import type { ActivitySource, ObservedUse } from './activity.ts'
import type { LiveMachine } from '../host/live-machine.ts'

export type GoneReason =
  | 'deleted' // calls: 401 revoked_workspace; streams: close code 4410
  | 'epoch_ended' // suspended, restarted or moved: stale_epoch, 4409
  | 'died' // the engine was killed: workspace_not_running, 4409

export interface Hold {
  operation_id: string
  operation_kind: OperationKind | undefined
  gate: 'open' | 'read_only' | 'closed'
}

/** States of a machine's memory (Cell, "Parking"). */
export type ResidencyState = 'resident' | 'frozen' | 'hibernated' | 'restoring'

/** Immutable: a change creates a new entry. */
export interface WorkspaceEntry {
  readonly id: string
  readonly organization_id: string
  readonly project_id: string
  readonly observed_state: ObservedState
  readonly desired_state: 'running' | 'suspended' | 'deleted'
  readonly ownership_epoch: number
  readonly lifetime: 'persistent' | 'session'
  readonly mode: 'processful' | 'file_first'
  readonly disk_layout: 'legacy' | 'layered'
  readonly deleted_at: Date | null
  readonly cell_id: string | null
  /** False: the workspace belongs to another cell (stale_endpoint). */
  readonly here: boolean
  readonly hold: Hold | null
  /** null: the workspace would start from its layers alone. */
  readonly checkpoint_id: string | null
  /** Lowest layer first. */
  readonly layers: readonly string[]
  readonly tokens_revoked_before: Date | null
  readonly template_env: Readonly<Record<string, string>>
  readonly inputs: Readonly<Record<string, string>>
  /** Cached here for the time when the database cannot be reached. */
  readonly has_secrets: boolean
  readonly grants: Resources | null
  readonly residency: 'resident' | 'hibernated' | 'restoring'
  /** Last use according to the row, which is a few seconds late. */
  readonly active_at: Date
  readonly keepalive_until: Date | null
  readonly background: Background | null
  /** null: none, or cancelled by a tool call. */
  readonly suspend_requested_at: Date | null
  /** null: no machine runs, or hostd has not reported it yet. */
  readonly machine: LiveMachine | null
  /** Fires once, with a GoneReason, when this epoch's machine ends or the workspace is deleted. */
  readonly gone: AbortSignal
}

export type ActivityKind =
  | 'tool_call' // also cancels a pending suspend request
  | 'other' // a port request, a keepalive

export interface MachineTable {
  /** undefined: the entry is not in memory, use load(). */
  get(workspace_id: string): WorkspaceEntry | undefined
  /** undefined: no such workspace. */
  load(workspace_id: string): Promise<WorkspaceEntry | undefined>
  /**
   * Must be called before a refusal for a state, a hold or an epoch: a change that the API has just reported may not have arrived here.
   * Concurrent callers share one query.
   */
  fresh(workspace_id: string): Promise<WorkspaceEntry | undefined>
  touch(workspace_id: string, kind: ActivityKind): void
  /** A suspend waits a short time for calls before it pauses the guest, and never for streams. Disposing counts as activity. */
  holdAwake(workspace_id: string, what: 'call' | 'stream', holder?: ActivitySource): Disposable
  seen(workspace_id: string): ObservedUse | undefined
  /** Milliseconds since the database was lost. From 30,000 on the gateway refuses new calls with 503. */
  databaseLostMs(): number
  keepalive(workspace_id: string, until: Date): void
}
