import type { Resources } from '../../db/schema.ts'

// The TypeScript side of machine/internal/wire/hostd.go: the same words, spelled the same.

/** For whom a verb speaks. */
export interface Fence {
  workspace_id: string
  operation_id: string
  step: string
  epoch: number
  fence: number
}

export interface StartRequest extends Fence {
  resources: Resources
  hostname: string
  layers: string[]
  /** The disk holds all that the layers hold: a blank one is filled with it, and none is mounted below. */
  full_copy?: boolean
  /** The disk to continue from; absent: a blank one. */
  from_disk?: string
  /** A checkpoint of a disk alone to start from instead, of any workspace. */
  from_layer?: { workspace_id: string; checkpoint_id: string }
  /** Its packets may leave at once, as after connect: nothing of the guest's runs in it before its first command. */
  connect?: boolean
}

export interface RestoreRequest extends Fence {
  resources: Resources
  hostname: string
  checkpoint_id: string
  renew_identity?: boolean
}

export interface CheckpointRequest extends Fence {
  checkpoint_id: string
  into_workspace_id?: string
  into_fence?: number
  then: 'paused' | 'running'
  /** Without memory: machines start from it, and none is restored. Only with `running`. */
  disk_only?: boolean
}

export interface CloneRequest extends Fence {
  source_workspace_id: string
  source_checkpoint_id: string
  checkpoint_id: string
  /** The memory is left out: machines start from it, and none is restored. */
  disk_only?: boolean
}

export interface StopRequest extends Fence {
  /** Stops only a machine of that epoch. */
  machine_epoch?: number
}

export interface DeleteRequest extends Fence {
  names: string[]
}

export interface Machine {
  workspace_id: string
  epoch: number
  fence: number
  operation_id: string
  slot: string
  state: 'running' | 'paused' | 'frozen'
  disk: string
  address: string
  agent_key: string
  started_at: string
  connected: boolean
  freezer_file?: string
  resources: Resources
  /** Version of the build that it runs under. */
  engine: string
  /** What its agent speaks: agent-protocol.ts. */
  agent_protocol: number
}

export interface CheckpointInfo {
  checkpoint_id: string
  workspace_id: string
  epoch: number
  /** That it restores under; '' of a disk alone. */
  engine: string
  disk_only?: boolean
  size_bytes: number
  disk: string
  created_at: string
  paused_ms: number
  layers: string[]
  resources: Resources
}

export interface DiskReadRequest {
  workspace_id: string
  /** null: the workspace would start blank, and is its template's layers. */
  checkpoint_id: string | null
  layers: readonly string[]
  /** Of a reader that did not answer: the host looks whether it does before it hands it out again. */
  doubted_address?: string
}

/** Asked like an agent. */
export interface DiskReader {
  /** Path of a unix socket. */
  address: string
  agent_key: string
  epoch: number
}

export interface WorkspaceFiles {
  workspace_id: string
  fence: number
  disks: string[]
  checkpoints: CheckpointInfo[]
}

export interface HostCapacity extends Resources {
  pool_bytes: number
  pool_free_bytes: number
  reserve_bytes: number
}

export interface Inventory {
  instance: string
  boot_id: string
  host_boot_id: string
  /** What is started anew runs under it. */
  engine: string
  /** Every build that is kept: a checkpoint of another one does not restore. */
  engines: string[]
  last_event: number
  machines: Machine[]
  workspaces: WorkspaceFiles[]
  slots: number
  /** Of them, those that have the blank disk of a template already. */
  fitted_slots: number
  shells: number
  capacity: HostCapacity
}

/** Counters of one machine since it began; `fence` says which. */
export interface MachineStats {
  workspace_id: string
  epoch: number
  fence: number
  cpu_usec: number
  memory_bytes: number
  disk_bytes: number
  rx_bytes: number
  tx_bytes: number
}

/** Workspaces of one question about disks. */
export const MEASURES_MAX = 500

export interface HostEvent {
  seq: number
  boot_id: string
  kind: string
  workspace_id: string
  epoch: number
  fence: number
  reason: string
  at: string
}

export const HOST_ERRORS = [
  'bad_request',
  'not_found',
  'fenced',
  'not_running',
  'already_running',
  'no_space',
  'checkpoint_failed',
  'checkpoint_corrupt',
  'checkpoint_incompatible',
  'layer_missing',
  'invalid_resources',
  'no_capacity',
  'start_failed',
  'restore_failed',
  'internal',
] as const

/** `unreachable` and `invalid_answer` are the link's own: no answer, and an answer that is not one. */
export type HostFailureCode = (typeof HOST_ERRORS)[number] | 'unreachable' | 'invalid_answer'

/** A refusal of the machine host, or its silence. */
export class HostFailure extends Error {
  readonly code: HostFailureCode
  readonly retryable: boolean
  readonly details: Record<string, unknown>

  constructor(code: HostFailureCode, message: string, options: { retryable: boolean; details?: Record<string, unknown>; cause?: unknown }) {
    super(message, { cause: options.cause })
    this.code = code
    this.retryable = options.retryable
    this.details = options.details ?? {}
  }
}

/**
 * The machine port: what the cell needs of a computer. hostd speaks it over a socket, the fake of the tests in memory, and one
 * conformance suite holds both to the same behaviour. Every call rejects with HostFailure and nothing else. A verb asked again with
 * the same fence and step is done once; a lower fence than one seen before is refused with `fenced`.
 */
export interface MachineHost {
  start(request: StartRequest): Promise<Machine>
  restore(request: RestoreRequest): Promise<Machine>
  /** The machine's packets may leave. */
  connect(request: Fence): Promise<void>
  checkpoint(request: CheckpointRequest): Promise<CheckpointInfo>
  unpause(request: Fence): Promise<void>
  stop(request: StopRequest): Promise<void>
  freeze(request: Fence): Promise<void>
  thaw(request: Fence): Promise<void>
  cloneCheckpoint(request: CloneRequest): Promise<CheckpointInfo>
  deleteCheckpoints(request: DeleteRequest): Promise<void>
  deleteDisks(request: DeleteRequest): Promise<void>
  /** Lower fences are refused from here on; returns when what they started has ended. */
  fence(request: Fence): Promise<void>
  /** Machine stopped, every file of the workspace gone. */
  deleteWorkspace(request: Fence): Promise<void>
  /**
   * A reader of the disk of a workspace that sleeps here. It ends by itself when it is idle, and before anything else is done with the
   * disk. `already_running`: the workspace does not sleep. `no_capacity`: too many readers.
   */
  readDisk(request: DiskReadRequest): Promise<DiskReader>
  inventory(): Promise<Inventory>
  /** What each machine has used since it began. */
  stats(): Promise<MachineStats[]>
  /**
   * What the quota of each workspace counts, as in MachineStats; of machines and of what sleeps. One without files here is left out.
   * @param workspace_ids at most MEASURES_MAX.
   */
  measureDisks(workspace_ids: string[]): Promise<Map<string, number>>
  /** Events after `after`, until the signal fires; ends or rejects when contact is lost. */
  events(after: number, signal: AbortSignal): AsyncIterable<HostEvent>
  close(): Promise<void>
}
