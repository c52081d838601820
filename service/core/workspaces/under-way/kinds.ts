import { LIMITS } from '../../../../contract/limits.ts'

export interface WorkKind {
  row: string
  by: 'cell' | 'api'
  worker: string
  /** Seconds after the time in the row. Work beyond it is reported to the operator. */
  deadline_seconds: number
  /** What ends the work after a killed process, a database outage or a cancelled operation. */
  ended_by: string
}

const HOUR = 3600
const { build, execution, exec, warm, wait } = LIMITS
const BUILD_SECONDS = build.attempts_max * (build.seconds_max + wait.capacity_wait_seconds)

/** Uploads are absent: they wait for their caller, and the api removes them after a day. */
export const WORK_KINDS = {
  execution: {
    row: 'executions: queued or running',
    by: 'cell',
    worker: 'the process that recorded it (executions.ts)',
    deadline_seconds: wait.capacity_wait_seconds + exec.timeout_ms_max / 1000 + execution.overtime_seconds + HOUR,
    ended_by: 'endAbandoned: what no process works on is lost, and its tree and machine are free',
  },
  operation: {
    row: 'operations of workspaces and captures: queued, capacity_pending or running',
    by: 'cell',
    worker: 'the runner, which lists all that are open every 15 seconds',
    deadline_seconds: 6 * HOUR,
    ended_by: 'the next attempt, which goes on or undoes; after six attempts it is undone',
  },
  template_build: {
    row: 'operations of template_builds: queued or running',
    by: 'cell',
    worker: 'the runner',
    deadline_seconds: BUILD_SECONDS,
    ended_by: 'the next attempt; after `build.attempts_max` it fails',
  },
  build_machine: {
    row: 'machines of the kind build',
    by: 'cell',
    worker: 'the attempt of the build, or the maker of the warm capture',
    deadline_seconds: BUILD_SECONDS,
    ended_by: 'endBuildMachines: the machine of what is over ends, and its row goes',
  },
  build_capture: {
    row: 'checkpoints of the kind layer that were made for a build',
    by: 'cell',
    worker: 'the build',
    deadline_seconds: BUILD_SECONDS,
    ended_by: 'expireEndedCaptures: the capture of a build that is over expires',
  },
  volume: {
    row: 'volumes: creating or deleting',
    by: 'cell',
    worker: 'the runner',
    deadline_seconds: HOUR,
    ended_by: 'the next attempt; a deletion that is forced ends a creation',
  },
  attachment: {
    row: 'volume_attachments: attaching or detaching, by an operation',
    by: 'cell',
    worker: 'the runner, by the operation of the workspace',
    deadline_seconds: 6 * HOUR,
    ended_by: 'settleAttachments: an operation that is over without it leaves the volume as it was',
  },
  startup: {
    row: 'workspaces: startup is running',
    by: 'cell',
    worker: 'the runner, by the operation that brings the machine',
    deadline_seconds: 24 * HOUR,
    ended_by: 'the next attempt, which goes on; settleStartups: without an operation it has failed, and the next open runs it again',
  },
  warm_capture: {
    row: 'template_captures: making',
    by: 'cell',
    worker: 'the keeper, which looks every minute',
    deadline_seconds: warm.seconds_max + warm.room_wait_seconds + HOUR,
    ended_by: 'the next look, which makes it again; a version that is archived forgets it',
  },
  layer_list: {
    row: 'layer_lists: wanted',
    by: 'cell',
    worker: 'the lister, which looks every minute',
    deadline_seconds: HOUR,
    ended_by: 'the next look, which goes on from the last piece',
  },
  organization_deletion: {
    row: 'operations of organizations: queued or running',
    by: 'api',
    worker: 'the ender of any process, which looks every two seconds',
    deadline_seconds: 24 * HOUR,
    ended_by: 'the next step, a transaction that finds it undone',
  },
  export: {
    row: 'exports: queued or running',
    by: 'api',
    worker: 'the maker of the process that took it, which holds it for a minute at a time',
    deadline_seconds: 24 * HOUR,
    ended_by: 'the process that takes it next; after five attempts it has failed',
  },
  pushed_invoice: {
    row: 'payment_invoices: not settled',
    by: 'api',
    worker: 'the collector of the process that took it',
    deadline_seconds: 60 * 24 * HOUR,
    ended_by: 'the next try, which finds what is there by its key',
  },
} as const satisfies Record<string, WorkKind>

export type WorkKindName = keyof typeof WORK_KINDS

export function kindsOf(by: WorkKind['by']): [WorkKindName, WorkKind][] {
  const all = Object.entries(WORK_KINDS) as [WorkKindName, WorkKind][]
  return all.filter(([, kind]) => kind.by === by)
}
