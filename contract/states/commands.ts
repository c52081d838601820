import type { ObservedState } from './machine.ts'
import type { OperationKind } from './operation.ts'

export const COMMANDS = [
  'open',
  'suspend',
  'resume',
  'resume_and_wait', // resume with Prefer: wait
  'fork', // on the source
  'fork_tree', // on a file-first source
  'snapshot',
  'save_as_template',
  'restore', // a restore in place
  'adopt', // on the workspace that continues
  'adopted', // on the relative whose memory and disk are adopted
  'delete_checkpoint',
  'reset',
  'delete',
  'close',
  'suspend_when_idle',
  'cancel_suspend_when_idle',
  'idle_policy',
  'tool_token',
  'attach_volume',
  'detach_volume',
  'ports', // every change of access to a port
] as const
export type Command = (typeof COMMANDS)[number]

export type RefusalReason =
  | 'workspace_deleted'
  | 'not_supported_for_mode'
  | 'session_lifetime'
  | 'not_session'
  | 'operation_in_progress'
  | 'workspace_not_running'
  | 'not_running'
  | 'already_running'
  | 'not_suspended'
  | 'not_forkable'
  | 'not_snapshottable'
  | 'not_resettable'

export type Outcome =
  | { kind: 'refuse'; reason: RefusalReason }
  | {
      kind: 'operate'
      operation:
        | 'open'
        | 'suspend'
        | 'resume'
        | 'fork'
        | 'snapshot'
        | 'layer_snapshot'
        | 'restore'
        | 'adopt'
        | 'reset'
        | 'delete'
        | 'volume_attach'
        | 'volume_detach'
      desired_state: 'running' | 'suspended' | 'deleted'
    }
  | { kind: 'join' }
  /** The command is done without an operation. */
  | { kind: 'proceed' }
  /** If the state's own outcome starts no operation, that outcome; else refused as operation_in_progress. */
  | { kind: 'by_state' }
  /** The state's own outcome, even if it starts an operation. */
  | { kind: 'as_if_free' }
  /** The state's own outcome if the machine runs; else refused. */
  | { kind: 'when_running'; otherwise: RefusalReason }

const refuse = (reason: RefusalReason): Outcome => ({ kind: 'refuse', reason })
const join: Outcome = { kind: 'join' }
const proceed: Outcome = { kind: 'proceed' }
const by_state: Outcome = { kind: 'by_state' }
const as_if_free: Outcome = { kind: 'as_if_free' }
const busy = refuse('operation_in_progress')
const start: Outcome = { kind: 'operate', operation: 'open', desired_state: 'running' }
const resume: Outcome = { kind: 'operate', operation: 'resume', desired_state: 'running' }
const suspend: Outcome = { kind: 'operate', operation: 'suspend', desired_state: 'suspended' }
const fork: Outcome = { kind: 'operate', operation: 'fork', desired_state: 'running' }
const remove: Outcome = { kind: 'operate', operation: 'delete', desired_state: 'deleted' }

const changeless = (desired_state: 'running' | 'suspended') => ({
  snapshot: { kind: 'operate', operation: 'snapshot', desired_state } as const,
  restore: { kind: 'operate', operation: 'restore', desired_state } as const,
  adopt: { kind: 'operate', operation: 'adopt', desired_state } as const,
  reset: { kind: 'operate', operation: 'reset', desired_state } as const,
})

const volumes = (desired_state: 'running' | 'suspended') => ({
  attach_volume: { kind: 'operate', operation: 'volume_attach', desired_state } as const,
  detach_volume: { kind: 'operate', operation: 'volume_detach', desired_state } as const,
})

type Row = Record<Command, Outcome>
type PartialRow = Partial<Row>

/** A deleted workspace refuses commands before any other rule applies (App, "Lifecycle rules"). */
export const DELETED_COMMANDS: Row = {
  open: refuse('workspace_deleted'),
  suspend: refuse('workspace_deleted'),
  resume: refuse('workspace_deleted'),
  resume_and_wait: refuse('workspace_deleted'),
  fork: refuse('workspace_deleted'),
  fork_tree: refuse('workspace_deleted'),
  snapshot: refuse('workspace_deleted'),
  save_as_template: refuse('workspace_deleted'),
  restore: refuse('workspace_deleted'),
  adopt: refuse('workspace_deleted'),
  adopted: refuse('workspace_deleted'),
  delete_checkpoint: refuse('workspace_deleted'),
  reset: refuse('workspace_deleted'),
  delete: join,
  close: join,
  suspend_when_idle: refuse('workspace_deleted'),
  cancel_suspend_when_idle: proceed,
  idle_policy: refuse('workspace_deleted'),
  tool_token: refuse('workspace_deleted'),
  attach_volume: refuse('workspace_deleted'),
  detach_volume: refuse('workspace_deleted'),
  ports: refuse('workspace_deleted'),
}

/** Commands that a mode refuses in every state. */
export const MODE_COMMANDS: Record<'processful' | 'file_first', PartialRow> = {
  processful: { fork_tree: refuse('not_supported_for_mode') },
  file_first: {
    suspend: refuse('not_supported_for_mode'),
    resume: refuse('not_supported_for_mode'),
    resume_and_wait: refuse('not_supported_for_mode'),
    fork: refuse('not_supported_for_mode'),
    snapshot: refuse('not_supported_for_mode'),
    save_as_template: refuse('not_supported_for_mode'),
    restore: refuse('not_supported_for_mode'),
    adopt: refuse('not_supported_for_mode'),
    adopted: refuse('not_supported_for_mode'),
    delete_checkpoint: refuse('not_supported_for_mode'),
    reset: refuse('not_supported_for_mode'),
    suspend_when_idle: refuse('not_supported_for_mode'),
    idle_policy: refuse('not_supported_for_mode'),
    attach_volume: refuse('not_supported_for_mode'),
    detach_volume: refuse('not_supported_for_mode'),
    ports: refuse('not_supported_for_mode'),
  },
}
export const LIFETIME_COMMANDS: Record<'persistent' | 'session', PartialRow> = {
  persistent: { close: refuse('not_session') },
  session: {
    suspend: refuse('session_lifetime'),
    suspend_when_idle: refuse('session_lifetime'),
    idle_policy: refuse('session_lifetime'),
  },
}

export type LockRole = Exclude<OperationKind, 'fork'> | 'fork_source' | 'fork_target' | 'adopt_source'

const HELD: Row = {
  open: busy,
  suspend: busy,
  resume: busy,
  resume_and_wait: busy,
  fork: busy,
  fork_tree: busy,
  snapshot: busy,
  save_as_template: busy,
  restore: busy,
  adopt: busy,
  adopted: busy,
  delete_checkpoint: busy, // the operation may use the checkpoint
  reset: busy,
  delete: remove,
  close: remove,
  suspend_when_idle: busy,
  cancel_suspend_when_idle: proceed,
  idle_policy: proceed,
  tool_token: busy,
  attach_volume: busy,
  detach_volume: busy,
  ports: proceed, // changes of access do not touch the workspace itself
}
const waits_for_memory = refuse('workspace_not_running') // App, "Reasons": a token requested while the workspace suspends or before a resume starts
/** Tools are served while the workspace starts (App, "Workspace observed state"). */
const STARTING: Row = {
  ...HELD,
  open: join,
  resume: join,
  resume_and_wait: join,
  tool_token: { kind: 'when_running', otherwise: 'operation_in_progress' },
}
/** The workspace remains in its state meanwhile. */
const COPIED: Row = { ...HELD, open: by_state, resume_and_wait: by_state, tool_token: by_state }

/** While an operation runs, its kind decides instead of the state. */
export const LOCKED_COMMANDS: Record<LockRole, Row> = {
  open: STARTING,
  resume: { ...STARTING, tool_token: { kind: 'when_running', otherwise: 'workspace_not_running' } },
  fork_target: STARTING,
  suspend: { ...HELD, suspend_when_idle: join, tool_token: waits_for_memory },
  fork_source: { ...COPIED, fork: as_if_free }, // one capture serves both (decision 256)
  snapshot: COPIED,
  layer_snapshot: COPIED,
  template_build: COPIED,
  restore: HELD,
  adopt: HELD,
  adopt_source: COPIED,
  reset: HELD,
  move: HELD,
  volume_create: HELD,
  volume_delete: HELD,
  // These operations are short, and the workspace remains in its state.
  volume_attach: COPIED,
  volume_detach: COPIED,
  delete: DELETED_COMMANDS,
}

/** A state without its operation is inconsistent. The next open repairs it, and delete is accepted. */
const WITHOUT_OPERATION: Row = {
  open: start,
  suspend: refuse('not_running'),
  resume: refuse('not_suspended'),
  resume_and_wait: refuse('not_suspended'),
  fork: refuse('not_forkable'),
  fork_tree: refuse('not_forkable'),
  snapshot: refuse('not_snapshottable'),
  save_as_template: refuse('workspace_not_running'),
  restore: refuse('not_running'),
  adopt: refuse('not_running'),
  adopted: refuse('not_forkable'),
  delete_checkpoint: proceed, // except the workspace's current checkpoint
  reset: refuse('not_resettable'),
  delete: remove,
  close: remove,
  suspend_when_idle: refuse('not_running'),
  cancel_suspend_when_idle: proceed,
  idle_policy: proceed,
  tool_token: refuse('not_running'), // no running operation would end this state
  attach_volume: refuse('not_running'),
  detach_volume: refuse('not_running'),
  ports: proceed,
}

export const STATE_COMMANDS: Record<ObservedState, Row> = {
  running: {
    ...WITHOUT_OPERATION,
    ...changeless('running'),
    ...volumes('running'),
    save_as_template: { kind: 'operate', operation: 'layer_snapshot', desired_state: 'running' },
    open: proceed,
    suspend,
    resume: refuse('already_running'),
    resume_and_wait: proceed,
    fork,
    fork_tree: proceed,
    adopted: proceed,
    suspend_when_idle: proceed,
    tool_token: proceed,
  },
  suspended: {
    ...WITHOUT_OPERATION,
    ...changeless('suspended'),
    ...volumes('suspended'),
    open: resume,
    resume,
    resume_and_wait: resume,
    fork,
    adopted: proceed,
    tool_token: proceed,
  },
  // An open starts from the current disk. If it fails, a restore or an adoption leaves the workspace suspended at the chosen checkpoint.
  failed: { ...WITHOUT_OPERATION, ...volumes('running'), restore: changeless('suspended').restore, adopt: changeless('suspended').adopt },
  creating: WITHOUT_OPERATION,
  starting: WITHOUT_OPERATION,
  suspending: WITHOUT_OPERATION,
  resuming: WITHOUT_OPERATION,
  forking: WITHOUT_OPERATION,
  stopping: WITHOUT_OPERATION,
  deleting: DELETED_COMMANDS,
  deleted: DELETED_COMMANDS,
}

/** Checked first, because this refusal takes precedence over errors of the request. */
export function refusedAlways(seen: CommandFacts, command: Command): RefusalReason | null {
  const decision = ofEveryState(seen, command)
  return decision?.kind === 'refuse' ? decision.reason : null
}

export interface CommandFacts {
  observed_state: ObservedState
  deleted: boolean
  mode: 'processful' | 'file_first'
  lifetime: 'persistent' | 'session'
  held_by: LockRole | null
}

export type Decision = Exclude<Outcome, { kind: 'by_state' | 'as_if_free' | 'when_running' }>

/** All decisions use this function, which applies the tables above in order of precedence. */
export function decide(seen: CommandFacts, command: Command): Decision {
  const always = ofEveryState(seen, command)
  if (always !== undefined) return always
  const of_state = settled(STATE_COMMANDS[seen.observed_state][command])
  if (seen.held_by === null) return of_state
  const of_holder = LOCKED_COMMANDS[seen.held_by][command]
  if (of_holder.kind === 'when_running') {
    return seen.observed_state === 'running' ? of_state : { kind: 'refuse', reason: of_holder.otherwise }
  }
  if (of_holder.kind === 'as_if_free') return of_state
  if (of_holder.kind !== 'by_state') return of_holder
  return of_state.kind === 'operate' ? { kind: 'refuse', reason: 'operation_in_progress' } : of_state
}

function ofEveryState(seen: CommandFacts, command: Command): Decision | undefined {
  if (seen.deleted) return ofDeleted(seen, command)
  const refused = MODE_COMMANDS[seen.mode][command] ?? LIFETIME_COMMANDS[seen.lifetime][command]
  return refused && settled(refused)
}

/** The command joins the running delete, if the workspace's lifetime permits the command at all (App, "Close"). */
function ofDeleted({ lifetime }: CommandFacts, command: Command): Decision {
  const outcome = settled(DELETED_COMMANDS[command])
  const is_refused_alive = LIFETIME_COMMANDS[lifetime][command] !== undefined
  return outcome.kind === 'join' && is_refused_alive ? { kind: 'refuse', reason: 'workspace_deleted' } : outcome
}

function settled(outcome: Outcome): Decision {
  if (outcome.kind === 'by_state' || outcome.kind === 'as_if_free' || outcome.kind === 'when_running')
    throw new Error(`a table that has no other to refer to says ${outcome.kind}`)
  return outcome
}
