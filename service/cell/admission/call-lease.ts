import type { CellRoute } from '../../../contract/route.ts'
import type { Failure } from '../../lib/fail.ts'
import type { AgentLink, FileReads } from '../host/agent-link.ts'
import type { BufferBudget } from '../host/buffer-budget.ts'
import type { WorkspaceEntry } from '../machines/table.ts'
import type { NeedsOf } from './route-facts.ts'

/** Prevents the machine from being parked until disposed. */
export interface CallLease extends Disposable {
  entry: WorkspaceEntry
  /** @returns the refusal that now applies to the workspace, or null */
  refusedBy(): Promise<Failure | null>
  /** Whether the machine may be paused, which explains a silent agent. */
  held(): boolean
  room: BufferBudget
  draining: AbortSignal
}

export interface MachineCallLease extends CallLease {
  agent: AgentLink
}

export interface FilesCallLease extends CallLease {
  files: FileReads
  /** Valid once `files` has answered. */
  read_headers: Record<string, string>
}

export type TicketOf<R extends CellRoute> = { machine: MachineCallLease; files: FilesCallLease; nothing: CallLease }[NeedsOf<R>]
