import type { CellRoute } from '../../../contract/route.ts'
import type { Failure } from '../../lib/fail.ts'
import type { AgentLink, FileReads } from '../host/agent-link.ts'
import type { BufferBudget } from '../host/buffer-budget.ts'
import type { WorkspaceEntry } from '../machines/table.ts'
import type { NeedsOf } from './route-facts.ts'

/** The lease of an admitted call. Holds its machine awake until disposed. */
export interface CallLease extends Disposable {
  entry: WorkspaceEntry
  /** The refusal that the same call would get now; null: none. */
  refusedBy(): Promise<Failure | null>
  /** Whether a lifecycle operation holds the workspace: its machine may be paused. */
  held(): boolean
  room: BufferBudget
  draining: AbortSignal
}

export interface MachineCallLease extends CallLease {
  agent: AgentLink
}

/** For a call that reads files: from the machine's agent, or from the disk of a suspended or hibernated workspace. */
export interface FilesCallLease extends CallLease {
  files: FileReads
  /** Headers that name the source of `files`. Valid once it has answered. */
  read_headers: Record<string, string>
}

export type TicketOf<R extends CellRoute> = { machine: MachineCallLease; files: FilesCallLease; nothing: CallLease }[NeedsOf<R>]
