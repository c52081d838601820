import type { MachineVolume, Resources } from '../../db/schema.ts'
import type { EgressInForce, HostDenial, HostEgress, SetEgressRequest } from './egress.ts'
import type { Subject, VolumeSubject } from './subject.ts'
import type { DiskReader, DiskReadRequest } from './hostd-disks.ts'
import type { LayerHost } from './hostd-layers.ts'
import type { TreeApplyRequest, TreeChangesRequest } from './hostd-trees.ts'

// The TypeScript side of machine/internal/wire/hostd.go: the same words, spelled the same.

/** For whom a verb speaks. */
export interface Fence {
  subject: Subject
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
  /** A checkpoint of a disk alone to start from instead, of any subject. */
  from_layer?: { subject: Subject; checkpoint_id: string }
  /** The digest of the tree that lies over the layers, and its bytes. A host whose copy is of another tree refuses with `tree_stale`. */
  tree?: string
  tree_bytes?: number
  /** Its packets may leave at once, as after connect: nothing of the guest's runs in it before its first command. */
  connect?: boolean
  /** Mounted before the first command; one that is not on the host any more is left out. */
  volumes?: readonly MachineVolume[]
  /** Absent: all that is public. Nothing leaves before it is in force. */
  egress?: HostEgress
}

export interface RestoreRequest extends Fence {
  resources: Resources
  hostname: string
  checkpoint_id: string
  renew_identity?: boolean
  /** Whose checkpoint it is; absent: the subject's own. Another's holds memory, and its identity is renewed. */
  of?: Subject
  volumes?: readonly MachineVolume[]
  egress?: HostEgress
}

/** All volumes that a running machine is to have. */
export interface VolumesRequest extends Fence {
  volumes: readonly MachineVolume[]
}

/** For which volume a verb speaks. */
export interface VolumeFence extends Omit<Fence, 'subject'> {
  subject: VolumeSubject
}

export interface VolumeRequest extends VolumeFence {
  quota_gib: number
}

export interface CheckpointRequest extends Fence {
  checkpoint_id: string
  into?: Subject
  into_fence?: number
  then: 'paused' | 'running'
  /** Without memory: machines start from it, also where it is restored. Only with `running`. */
  disk_only?: boolean
  /** A disk that no machine runs on, to be captured alone, with what a machine would say of itself. Only with disk_only. */
  from_disk?: string
  layers?: string[]
  resources?: Resources
  /** A blank disk is to follow: refused with `disk_full` where what the checkpoints keep leaves it no room. Only with `paused`. */
  then_blank?: boolean
}

export interface CloneRequest extends Fence {
  source: Subject
  source_checkpoint_id: string
  checkpoint_id: string
  /** Leaves the memory out, which may be damaged then. A copy with memory for another subject is refused where it cannot be restored here. */
  disk_only?: boolean
}

export interface StopRequest extends Fence {
  /** Stops only a machine of that epoch. */
  machine_epoch?: number
}

export interface DeleteRequest extends Fence {
  names: string[]
}

/** What is kept although no row names it; replaces the list of before. */
export interface QuarantineRequest extends Fence {
  /** Everything of the subject. */
  whole?: boolean
  disks: string[]
  checkpoints: string[]
}

export interface Quarantined {
  kind: 'subject' | 'disk' | 'checkpoint'
  name: string
  since: string
}

export interface Machine {
  subject: Subject
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
  /** Nothing is started or restored under its engine any more: saved to disk, its memory would stay there. */
  engine_refused?: boolean
  /** Absent of a host that enforces nothing yet. */
  egress?: EgressInForce
  /** Those that its start or restore was told of and left out. */
  refused_volumes?: RefusedVolume[]
}

export interface CheckpointInfo {
  checkpoint_id: string
  subject: Subject
  epoch: number
  /** Of the attempt that made it. */
  fence: number
  /** The version that it restores under; '' of a disk alone. */
  engine: string
  /** `gvisor`; absent of a disk alone. */
  engine_kind?: string
  disk_only?: boolean
  size_bytes: number
  /** What the captured disk refers to, whatever else does too; null of a checkpoint that an older release wrote. */
  disk_bytes: number | null
  disk: string
  created_at: string
  paused_ms: number
  layers: string[]
  resources: Resources
  /** The machine's, once it was captured. In the answer of a checkpoint of a machine alone. */
  counters?: MachineCounters
  /** Why its memory cannot be restored here as things are: MEMORY_REFUSALS. In an inventory alone; absent: it can, or there is none. */
  memory_refused?: string
  /** Where its processor is why: the features that this one lacks, as far as they are known. In an inventory alone. */
  missing_features?: string[]
}

/** What lies in the pool for a subject. */
export interface SubjectFiles {
  subject: Subject
  fence: number
  disks: string[]
  checkpoints: CheckpointInfo[]
  quarantined: Quarantined[]
}

/** A volume that lies here, half-made ones too. */
export interface VolumeHere {
  volume_id: string
  /** Since when it is kept although no row names it; absent: nobody has said that it is. */
  kept_since?: string
}

export interface KeepVolumeRequest extends VolumeFence {
  keep: boolean
}

export interface RefusedVolume {
  place: number
  why: string
}

/** What this computer has for machines. */
export interface MachineCapacity extends Resources {
  /** Of that memory, what each machine takes beyond what it is told. */
  headroom_mib: number
}

export interface HostCapacity extends MachineCapacity {
  pool_bytes: number
  pool_free_bytes: number
  reserve_bytes: number
}

export interface Inventory {
  instance: string
  boot_id: string // of this run of hostd: events are counted from its start
  host_boot_id: string // of this run of the computer
  /** What is started anew runs under it. */
  engine: string
  /** Every build that is kept: a checkpoint of another one does not restore. */
  engines: string[]
  last_event: number
  /** Of the database that the host's pool belongs to; '' while it belongs to none. */
  installation: string
  /** That any verb has named on this host. */
  highest_fence: number
  machines: Machine[]
  files: SubjectFiles[]
  volumes: VolumeHere[]
  slots: number
  /** Of them, those that have the blank disk of a template already. */
  fitted_slots: number
  shells: number
  capacity: HostCapacity
  /** The process that answers machines' DNS questions; `starts` since hostd began. */
  resolver: { serving: boolean; starts: number }
}

/** What one machine has used since it began; `fence` says which. */
export interface MachineCounters {
  subject: Subject
  epoch: number
  fence: number
  cpu_usec: number
  memory_bytes: number
  disk_bytes: number
  /** Of its link: whatever it exchanged, with the cell too. */
  rx_bytes: number
  tx_bytes: number
  /** What it exchanged with the world outside, as far as its policy let it through: its ingress, then its egress. */
  received_bytes: number
  sent_bytes: number
  /** Since it was claimed. */
  ran_ms: number
}

/** The same, put to the account of the workspace that it is for. */
export interface MachineStats extends Omit<MachineCounters, 'subject' | 'ran_ms' | 'rx_bytes' | 'tx_bytes'> {
  workspace_id: string
  /** For how long it has run; absent where nobody knows. */
  ran_ms?: number
}

/** Subjects of one question about machines or disks. */
export const MEASURES_MAX = 500

export interface HostEvent {
  seq: number
  boot_id: string
  kind: string
  subject: Subject
  epoch: number
  fence: number
  reason: string
  at: string
  /** Of a machine that died: its last. Absent where there are none. */
  counters?: MachineCounters
}

export const HOST_ERRORS = [
  'bad_request',
  'not_found',
  'fenced',
  'not_running',
  'already_running',
  'wrong_installation',
  'tree_stale', // details.digest says of which tree the copy is, '' of none
  'volume_busy', // something in the machine uses it
  'mount_refused', // it cannot be mounted at that path of the machine
  'no_space', // on the pool
  'disk_full', // within the workspace's own limit
  'checkpoint_failed',
  'checkpoint_corrupt',
  'checkpoint_incompatible',
  'layer_missing',
  'layer_refused', // details.why: too_large, too_many_entries, path_too_long
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
export interface MachineHost extends LayerHost {
  start(request: StartRequest): Promise<Machine>
  /** Continues a checkpoint. One of a disk alone is booted from. */
  restore(request: RestoreRequest): Promise<Machine>
  /** The machine's packets may leave. */
  connect(request: Fence): Promise<void>
  /**
   * Every packet meets the policy from the answer on, and connections that it does not allow carry nothing any more. Waits for no other
   * verb, and takes the turn of none: its fence is compared, and ends nobody's.
   */
  setEgress(request: SetEgressRequest): Promise<Pick<EgressInForce, 'revision'>>
  /** What was refused in the last hours, the last at first; none where there is no machine. */
  egressDenials(subject: Subject): Promise<HostDenial[]>
  checkpoint(request: CheckpointRequest): Promise<CheckpointInfo>
  unpause(request: Fence): Promise<void>
  /** @returns the machine's last counters; null: there was none, or it ended long ago. */
  stop(request: StopRequest): Promise<MachineCounters | null>
  freeze(request: Fence): Promise<void>
  thaw(request: Fence): Promise<void>
  cloneCheckpoint(request: CloneRequest): Promise<CheckpointInfo>
  deleteCheckpoints(request: DeleteRequest): Promise<void>
  deleteDisks(request: DeleteRequest): Promise<void>
  /** `volume_busy`, `mount_refused`, `not_found`: the machine has what it had. */
  setVolumes(request: VolumesRequest): Promise<void>
  /** Durable. Of one that is there, its limit. */
  createVolume(request: VolumeRequest): Promise<void>
  /** Taken from every machine that has it, whatever uses it there; then every file of it is gone. */
  deleteVolume(request: VolumeFence): Promise<void>
  /** Whether a volume is kept that no row names: since when is in the inventory. `not_found`: it is not here. */
  keepVolume(request: KeepVolumeRequest): Promise<void>
  /** `tree_stale`: the copy is of another tree. The entries are read once; what they throw is thrown, and the copy is nobody's then. */
  applyTree(request: TreeApplyRequest, entries: AsyncIterable<Buffer>): Promise<void>
  /** A machine that runs on the disk stands still from here on, and is to be stopped. `already_running`: it runs on another. */
  treeChanges(request: TreeChangesRequest): Promise<AsyncIterable<Buffer>>
  /** Lower fences are refused from here on; returns when what they started has ended. */
  fence(request: Fence): Promise<void>
  /** Machine stopped, every file of the subject gone. @returns as stop does. */
  deleteSubject(request: Fence): Promise<MachineCounters | null>
  /**
   * A reader of a disk. It ends by itself when it is idle, and with the machine, or before anything else is done with a disk that sleeps.
   * `already_running`: it does not sleep, or is being worked on. `not_running`: there is no such machine. `no_capacity`: too many readers.
   */
  readDisk(request: DiskReadRequest): Promise<DiskReader>
  /**
   * Says of which installation this cell's database is. A host whose pool belongs to none belongs to it from then on.
   * `wrong_installation`: it belongs to another, and refuses every verb that changes something until somebody says otherwise.
   */
  claim(installation_id: string): Promise<void>
  /** Keeps what no row names: since when is in the inventory, and outlives everything but the pool. `not_found`: it has no files here. */
  quarantine(request: QuarantineRequest): Promise<void>
  inventory(): Promise<Inventory>
  /** The inventory without `files`: what it costs does not grow with what the pool holds. */
  glance(): Promise<Inventory>
  /**
   * What machines have used since they began.
   * @param subjects at most MEASURES_MAX, of which those without a machine are left out; absent: all that have one.
   */
  stats(subjects?: Subject[]): Promise<MachineCounters[]>
  /**
   * What the quota of each workspace counts, as in MachineCounters; of machines and of what sleeps. One without files here is left out.
   * @param workspace_ids at most MEASURES_MAX.
   */
  measureDisks(workspace_ids: string[]): Promise<Map<string, number>>
  /**
   * What the quota of each volume counts. One that is not here is left out.
   * @param volume_ids at most MEASURES_MAX.
   */
  measureVolumes(volume_ids: string[]): Promise<Map<string, number>>
  /** Events after `after`, until the signal fires; ends or rejects when contact is lost. */
  events(after: number, signal: AbortSignal): AsyncIterable<HostEvent>
  close(): Promise<void>
}
