import type { DiskReader } from '../../../contract/internal/host-disks.ts'
import type { EgressRevision, HostDenial, SetEgressRequest } from '../../../contract/internal/host-egress.ts'
import type { HostErrorCode } from '../../../contract/internal/host-errors.ts'
import type { CheckpointInfo, HostEvent, Inventory, Machine, MachineCounters } from '../../../contract/internal/host-inventory.ts'
import type { CommandHeader, Subject, VolumeHeader } from '../../../contract/internal/host-subject.ts'
import type { TreeApplyRequest, TreeChangesRequest } from '../../../contract/internal/host-trees.ts'
import type {
  CheckpointRequest,
  CloneRequest,
  DeleteRequest,
  KeepVolumeRequest,
  QuarantineRequest,
  RestoreRequest,
  StartRequest,
  StopRequest,
  VolumeRequest,
  VolumesRequest,
} from '../../../contract/internal/host.ts'
import type { Resources } from '../../db/column-types.ts'
import type { DiskReadRequest } from './hostd-disks.ts'
import type { LayerHost } from './hostd-layers.ts'

export interface MachineCapacity extends Resources {
  /** Memory that each machine uses beyond its size. */
  headroom_mib: number
}

export interface MachineStats extends Omit<MachineCounters, 'subject' | 'ran_ms' | 'rx_bytes' | 'tx_bytes'> {
  workspace_id: string
  ran_ms?: number
}

/** `unreachable` (no answer) and `invalid_answer` come from the client itself. */
export type HostFailureCode = HostErrorCode | 'unreachable' | 'invalid_answer'

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
   * Once this returns, the policy applies to every packet, and denied connections carry no more data. The call skips the subject's queue,
   * so its fencing token is checked, but not raised.
   */
  setEgress(request: SetEgressRequest): Promise<EgressRevision>
  /** Denials of the last hours, newest first; none without a machine. */
  egressDenials(subject: Subject): Promise<HostDenial[]>
  checkpoint(request: CheckpointRequest): Promise<CheckpointInfo>
  unpause(request: CommandHeader): Promise<void>
  /** @returns the machine's last counters, or null if there was no machine, or it ended long ago. */
  stop(request: StopRequest): Promise<MachineCounters | null>
  freeze(request: CommandHeader): Promise<void>
  thaw(request: CommandHeader): Promise<void>
  cloneCheckpoint(request: CloneRequest): Promise<CheckpointInfo>
  deleteCheckpoints(request: DeleteRequest): Promise<void>
  deleteDisks(request: DeleteRequest): Promise<void>
  /** Refusals: `volume_busy`, `mount_refused`, `not_found`. The machine's volumes do not change in these cases. */
  setVolumes(request: VolumesRequest): Promise<void>
  /** The volume is durable when this returns. For an existing volume, the call sets the limit. */
  createVolume(request: VolumeRequest): Promise<void>
  /** Detaches the volume from every machine, even if in use, and deletes its files. */
  deleteVolume(request: VolumeHeader): Promise<void>
  /** Marks or unmarks a volume as retained without a row; the inventory shows the time of the mark. Refusal: `not_found`. */
  keepVolume(request: KeepVolumeRequest): Promise<void>
  /**
   * Reads the entries once and rethrows their error, after which the host's copy is invalid. Refusal: `tree_stale`, if the copy is of
   * another tree.
   */
  applyTree(request: TreeApplyRequest, entries: AsyncIterable<Buffer>): Promise<void>
  /**
   * Freezes a machine that runs on the disk; the caller must stop it afterwards. Refusal: `already_running`, if the machine runs on
   * another disk.
   */
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
   * States the installation of this cell's database. An unowned pool belongs to it from then on. Refusal: `wrong_installation`. The pool
   * belongs to another installation, and refuses every change until an operator reassigns it.
   */
  claim(installation_id: string): Promise<void>
  /**
   * Retains files without a row until the list is replaced; the inventory shows the time of each. Refusal: `not_found`, if the subject
   * has no files here.
   */
  quarantine(request: QuarantineRequest): Promise<void>
  inventory(): Promise<Inventory>
  /** The inventory without `files`: its cost does not grow with the pool. */
  glance(): Promise<Inventory>
  /**
   * Counters since each machine's start. @param subjects at most MEASURES_MAX; those without a machine are left out. Absent: all
   * machines.
   */
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
