import type { CellRoute } from '../../../../contract/route.ts'
import type { Failure } from '../../../lib/fail.ts'
import type { AgentLink, FileReads } from '../../links/agent.ts'
import type { AnswerRoom } from '../../links/answer-room.ts'
import type { WorkspaceEntry } from '../../machines/table.ts'
import type { NeedsOf } from './route-facts.ts'

/** A call that may be served. Its machine is held awake until the ticket is disposed of. */
export interface Ticket extends Disposable {
  entry: WorkspaceEntry
  /** Why the same call would be refused by now; null when it would not. */
  refusedBy(): Promise<Failure | null>
  /** A lifecycle operation has the workspace in hand: its machine may stand still. */
  held(): boolean
  /** What the call may keep in memory. */
  room: AnswerRoom
  draining: AbortSignal
}

/** Of a call that its machine serves. */
export interface MachineTicket extends Ticket {
  agent: AgentLink
}

/** Of a call that reads files: the machine's agent answers it, or the reader of a sleeping workspace's disk. */
export interface FilesTicket extends Ticket {
  files: FileReads
  /** Headers of what `files` answers. They say who it was, and are right when it has answered. */
  read_headers: Record<string, string>
}

/** The ticket that a route's handler is given, by what the route needs. */
export type TicketOf<R extends CellRoute> = { machine: MachineTicket; files: FilesTicket; nothing: Ticket }[NeedsOf<R>]
