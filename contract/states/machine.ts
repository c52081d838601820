/** States of a workspace (App, "Workspace observed state"). */
export const OBSERVED_STATES = [
  'creating',
  'starting',
  'running',
  'suspending',
  'suspended',
  'resuming',
  'forking',
  'stopping',
  'failed',
  'deleting',
  'deleted',
] as const
export type ObservedState = (typeof OBSERVED_STATES)[number]

/** A step of an operation, or a crash of the machine. */
export const MACHINE_EVENTS = [
  'start_admitted', // an open has capacity and begins
  'started', // the commit of an open
  'start_failed',
  'suspend_begun',
  'suspended', // the commit of a suspend
  'suspend_undone', // the guest runs again
  'resume_admitted',
  'resumed', // the commit of a resume
  'resume_undone',
  'fork_admitted',
  'captured', // a fork has its source's state, but does not run yet
  'forked', // the commit of a fork: the target runs
  'fork_failed', // the capture is complete, so an open can restore it
  'fork_lost', // the capture is not complete, so nothing can be opened
  'snapshot_begun',
  'startup_begun', // a failed startup is run again
  'volumes_begun', // a volume is attached or detached
  'replace_begun', // a reset, a restore in place or an adoption
  'reset', // the commit of a reset: only the template's content is left
  'restored', // the commit of a restore in place or an adoption: the workspace is the checkpoint
  'died', // the engine exited by itself
  'lost', // an operation found that its machine had died
  'delete_begun',
  'deleted',
] as const
export type MachineEvent = (typeof MACHINE_EVENTS)[number]

/** null: the event has no meaning in this state, because another event came first. */
type Row = Record<ObservedState, ObservedState | null>

const NOTHING: Row = {
  creating: null,
  starting: null,
  running: null,
  suspending: null,
  suspended: null,
  resuming: null,
  forking: null,
  stopping: null,
  failed: null,
  deleting: null,
  deleted: null,
}

/**
 * In `starting`, `suspending`, `resuming` and `forking` a crash does not change the state. Only the operation can decide whether a finished
 * checkpoint makes the dead machine irrelevant.
 */
export const MACHINE_STATES: Record<MachineEvent, Row> = {
  start_admitted: { ...NOTHING, creating: 'starting', starting: 'starting', failed: 'starting' },
  started: { ...NOTHING, creating: 'running', starting: 'running' },
  start_failed: { ...NOTHING, creating: 'failed', starting: 'failed', failed: 'failed' },
  suspend_begun: { ...NOTHING, running: 'suspending', suspending: 'suspending' },
  suspended: { ...NOTHING, suspending: 'suspended' },
  suspend_undone: { ...NOTHING, running: 'running', suspending: 'running' },
  resume_admitted: { ...NOTHING, suspended: 'resuming', resuming: 'resuming' },
  resumed: { ...NOTHING, resuming: 'running' },
  resume_undone: { ...NOTHING, suspended: 'suspended', resuming: 'suspended' },
  fork_admitted: { ...NOTHING, creating: 'forking', forking: 'forking' },
  captured: { ...NOTHING, creating: 'forking', forking: 'forking' },
  forked: { ...NOTHING, forking: 'running' },
  fork_failed: { ...NOTHING, creating: 'failed', forking: 'failed' },
  fork_lost: { ...NOTHING, creating: 'deleted', forking: 'deleted' },
  snapshot_begun: { ...NOTHING, running: 'running', suspended: 'suspended' },
  startup_begun: { ...NOTHING, running: 'running' },
  volumes_begun: { ...NOTHING, running: 'running', suspended: 'suspended', failed: 'failed' },
  // A repeat after the commit does not change the committed state.
  replace_begun: { ...NOTHING, running: 'running', suspended: 'suspended', failed: 'failed', starting: 'starting', resuming: 'resuming' },
  reset: { ...NOTHING, running: 'starting', suspended: 'suspended' },
  restored: { ...NOTHING, running: 'resuming', suspended: 'suspended', failed: 'suspended' },
  died: { ...NOTHING, running: 'failed' },
  lost: { ...NOTHING, running: 'failed', suspending: 'failed' },
  delete_begun: {
    creating: 'deleting',
    starting: 'deleting',
    running: 'deleting',
    suspending: 'deleting',
    suspended: 'deleting',
    resuming: 'deleting',
    forking: 'deleting',
    stopping: 'deleting',
    failed: 'deleting',
    deleting: 'deleting',
    deleted: null,
  },
  deleted: { ...NOTHING, deleting: 'deleted' },
}

export function machineState(from: ObservedState, event: MachineEvent): ObservedState | null {
  return MACHINE_STATES[event][from]
}
