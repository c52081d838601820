import type { MachineVolume, Resources } from '../../db/column-types.ts'
import type { EgressInForce, HostDenial, HostEgress, SetEgressRequest } from './egress.ts'
import type { Subject, VolumeSubject } from './subject.ts'
import type { DiskReader, DiskReadRequest } from './hostd-disks.ts'
import type { LayerHost } from './hostd-layers.ts'
import type { TreeApplyRequest, TreeChangesRequest } from './hostd-trees.ts'

// The TypeScript side of machine/internal/wire/hostd.go, with the same names.

/** The command header of a verb. */
export interface CommandHeader {
  subject: Subject
  operation_id: string
  step: string
  epoch: number
  fence: number
}

export interface StartRequest extends CommandHeader {
  resources: Resources
  hostname: string
  layers: string[]
  /** The disk holds the content of the layers: a blank disk is filled with it, and none is mounted below. */
  full_copy?: boolean
  from_disk?: string
  /** A disk-only checkpoint of any subject to start from instead. */
  from_layer?: { subject: Subject; checkpoint_id: string }
  /** The digest of the tree above the layers, and its size. A host with a copy of another tree refuses with `tree_stale`. */
  tree?: string
  tree_bytes?: number
  /** Connects the network at once: no guest process runs before the first command. */
  connect?: boolean
  /** Mounted before the first command. A volume that is not on the host is left out. */
  volumes?: readonly MachineVolume[]
  /** Absent: all public addresses. In force before the first packet. */
  egress?: HostEgress
}

export interface RestoreRequest extends CommandHeader {
  resources: Resources
  hostname: string
  checkpoint_id: string
  renew_identity?: boolean
  /** The owner of the checkpoint; absent: the subject. Another's must hold memory, and gets a new identity. */
  of?: Subject
  volumes?: readonly MachineVolume[]
  egress?: HostEgress
}

export interface VolumesRequest extends CommandHeader {
  volumes: readonly MachineVolume[]
}

export interface VolumeFence extends Omit<CommandHeader, 'subject'> {
  subject: VolumeSubject
}

export interface VolumeRequest extends VolumeFence {
  quota_gib: number
}

export interface CheckpointRequest extends CommandHeader {
  checkpoint_id: string
  into?: Subject
  into_fence?: number
  then: 'paused' | 'running'
  /** Leaves the memory out: machines boot from it, in a restore as well. Only with `running`. */
  disk_only?: boolean
  /** Captures this disk, which no machine uses, with the given layers and resources. Only with disk_only. */
  from_disk?: string
  layers?: string[]
  resources?: Resources
  /** A blank disk will follow: refused with `disk_full` if the checkpoints leave no space for it. Only with `paused`. */
  then_blank?: boolean
}

export interface CloneRequest extends CommandHeader {
  source: Subject
  source_checkpoint_id: string
  checkpoint_id: string
  /** Leaves the memory out, which may then be damaged. A copy with memory for another subject is refused if it cannot be restored here. */
  disk_only?: boolean
}

export interface StopRequest extends CommandHeader {
  machine_epoch?: number
}

export interface DeleteRequest extends CommandHeader {
  names: string[]
}

/** Replaces the list of files that are kept although no row names them. */
export interface QuarantineRequest extends CommandHeader {
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
  engine: string
  agent_protocol: number
  /** Its engine may start or restore nothing any more: memory saved to disk could not be restored. */
  engine_refused?: boolean
  /** Absent: the host enforces no policy yet. */
  egress?: EgressInForce
  refused_volumes?: RefusedVolume[]
}

export interface CheckpointInfo {
  checkpoint_id: string
  subject: Subject
  epoch: number
  /** The fencing token of the attempt that made it. */
  fence: number
  /** The version that restores it; '' if disk-only. */
  engine: string
  /** `gvisor`; absent if disk-only. */
  engine_kind?: string
  disk_only?: boolean
  size_bytes: number
  /** Bytes that the captured disk refers to, shared or not; null: an older release wrote the checkpoint. */
  disk_bytes: number | null
  disk: string
  created_at: string
  paused_ms: number
  layers: string[]
  resources: Resources
  /** The machine's counters after the capture. Only in the answer to a capture of a machine. */
  counters?: MachineCounters
  /** The reason for which its memory cannot be restored now: MEMORY_REFUSALS. Only in an inventory; absent: it can, or there is none. */
  memory_refused?: string
  /** Known features that this processor lacks, if that is the reason. Only in an inventory. */
  missing_features?: string[]
}

export interface SubjectFiles {
  subject: Subject
  fence: number
  disks: string[]
  checkpoints: CheckpointInfo[]
  quarantined: Quarantined[]
}

/** A volume on this host, even a half-made one. */
export interface VolumeHere {
  volume_id: string
  /** The time since which it is kept without a row; absent: not marked as kept. */
  kept_since?: string
}

export interface KeepVolumeRequest extends VolumeFence {
  keep: boolean
}

export interface RefusedVolume {
  place: number
  why: string
}

export interface MachineCapacity extends Resources {
  /** Extra memory that each machine takes beyond its size. */
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
  engine: string
  /** All kept builds: a checkpoint of any other does not restore. */
  engines: string[]
  last_event: number
  /** The installation that owns the pool; '' if none. */
  installation: string
  /** The highest fencing token that any verb has named on this host. */
  highest_fence: number
  machines: Machine[]
  files: SubjectFiles[]
  volumes: VolumeHere[]
  slots: number
  /** Warm sandboxes that have a template's blank disk already. */
  fitted_slots: number
  shells: number
  capacity: HostCapacity
  /** The DNS resolver of the machines; `starts` since hostd began. */
  resolver: { serving: boolean; starts: number }
}

/** Usage of one machine since its start; `fence` names the machine. */
export interface MachineCounters {
  subject: Subject
  epoch: number
  fence: number
  cpu_usec: number
  memory_bytes: number
  disk_bytes: number
  /** All bytes of its link, including those exchanged with the cell. */
  rx_bytes: number
  tx_bytes: number
  /** Bytes exchanged with the outside that its policy allowed: ingress, then egress. */
  received_bytes: number
  sent_bytes: number
  ran_ms: number
}

export interface MachineStats extends Omit<MachineCounters, 'subject' | 'ran_ms' | 'rx_bytes' | 'tx_bytes'> {
  workspace_id: string
  ran_ms?: number
}

/** Subjects per request. */
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
  /** The last counters of a machine that died; absent if unknown. */
  counters?: MachineCounters
}

export const HOST_ERRORS = [
  'bad_request',
  'not_found',
  'fenced',
  'not_running',
  'already_running',
  'wrong_installation',
  'tree_stale', // details.digest names the tree of the copy, '' for none
  'volume_busy', // a process in the machine uses it
  'mount_refused', // it cannot be mounted at that path of the machine
  'no_space', // in the pool
  'disk_full', // the workspace's own limit
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

/** `unreachable` (no answer) and `invalid_answer` come from the client itself. */
export type HostFailureCode = (typeof HOST_ERRORS)[number] | 'unreachable' | 'invalid_answer'

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
 * The machine port: the cell's interface to a computer. hostd serves it over a socket, and the tests' fake in memory. One conformance
 * suite covers both. Calls reject only with HostFailure. A verb repeated with the same fence and step is done once. A lower fence than an
 * earlier one is refused with `fenced`.
 */
export interface MachineHost extends LayerHost {
  start(request: StartRequest): Promise<Machine>
  restore(request: RestoreRequest): Promise<Machine>
  connect(request: CommandHeader): Promise<void>
  /**
   * Once it returns, the policy applies to every packet, and denied connections carry no more data. It skips the subject's queue: its
   * fencing token is checked, but not raised.
   */
  setEgress(request: SetEgressRequest): Promise<Pick<EgressInForce, 'revision'>>
  /** Denials of the last hours, newest first; none without a machine. */
  egressDenials(subject: Subject): Promise<HostDenial[]>
  checkpoint(request: CheckpointRequest): Promise<CheckpointInfo>
  unpause(request: CommandHeader): Promise<void>
  /** @returns the machine's last counters; null: there was none, or it ended long ago. */
  stop(request: StopRequest): Promise<MachineCounters | null>
  freeze(request: CommandHeader): Promise<void>
  thaw(request: CommandHeader): Promise<void>
  cloneCheckpoint(request: CloneRequest): Promise<CheckpointInfo>
  deleteCheckpoints(request: DeleteRequest): Promise<void>
  deleteDisks(request: DeleteRequest): Promise<void>
  /** `volume_busy`, `mount_refused`, `not_found`: the machine keeps its volumes. */
  setVolumes(request: VolumesRequest): Promise<void>
  /** Durable when it returns. For an existing volume it sets the limit. */
  createVolume(request: VolumeRequest): Promise<void>
  /** Detaches the volume from every machine, even if in use, and deletes its files. */
  deleteVolume(request: VolumeFence): Promise<void>
  /** Marks or unmarks a volume as kept without a row; the inventory shows since when. `not_found`: it is not here. */
  keepVolume(request: KeepVolumeRequest): Promise<void>
  /** `tree_stale`: the copy is of another tree. Reads the entries once and rethrows their error; the copy is then invalid. */
  applyTree(request: TreeApplyRequest, entries: AsyncIterable<Buffer>): Promise<void>
  /** Freezes a machine that runs on the disk, which must then be stopped. `already_running`: it runs on another disk. */
  treeChanges(request: TreeChangesRequest): Promise<AsyncIterable<Buffer>>
  /** Refuses lower fencing tokens from now on; returns when the calls under them have ended. */
  fence(request: CommandHeader): Promise<void>
  /** Stops the machine and deletes all files of the subject. @returns the counters, like stop. */
  deleteSubject(request: CommandHeader): Promise<MachineCounters | null>
  /**
   * Returns a reader of a disk. The reader exits when idle, with its machine, or before another verb uses the disk of a workspace without
   * a machine. `already_running`: there is a machine, or a verb is in progress. `not_running`: the named machine does not exist.
   * `no_capacity`: too many readers.
   */
  readDisk(request: DiskReadRequest): Promise<DiskReader>
  /**
   * Names the installation of this cell's database. An unowned pool belongs to it from then on. `wrong_installation`: the pool belongs to
   * another, and refuses every change until an operator reassigns it.
   */
  claim(installation_id: string): Promise<void>
  /** Keeps files without a row until the list is replaced; the inventory shows since when. `not_found`: it has no files here. */
  quarantine(request: QuarantineRequest): Promise<void>
  inventory(): Promise<Inventory>
  /** The inventory without `files`: its cost does not grow with the pool. */
  glance(): Promise<Inventory>
  /** Counters since each machine's start. @param subjects at most MEASURES_MAX, without a machine left out. Absent: all machines. */
  stats(subjects?: Subject[]): Promise<MachineCounters[]>
  /**
   * Bytes in each workspace's quota, with or without a machine; missing workspaces are left out. @param workspace_ids at most
   * MEASURES_MAX.
   */
  measureDisks(workspace_ids: string[]): Promise<Map<string, number>>
  /** Bytes in each volume's quota; missing volumes are left out. @param volume_ids at most MEASURES_MAX. */
  measureVolumes(volume_ids: string[]): Promise<Map<string, number>>
  /** Yields events after `after` until the signal fires; ends or rejects when the connection is lost. */
  events(after: number, signal: AbortSignal): AsyncIterable<HostEvent>
  close(): Promise<void>
}
