import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { Enum } from '../schemas/common.ts'
import { HostEgress } from './host-egress.ts'
import { CommandHeader, Subject, VolumeHeader } from './host-subject.ts'
import { As, Count, Flag, Name } from './values.ts'

// Requests of the cell to hostd, over HTTP on a unix socket. machine/internal/wire/hostd.go describes the calls.

export const InstallationRequest = Type.Object(
  {
    installation_id: Name(),
    instead_of: Type.Optional(Name('The installation from which the pool is taken. Only operators set it, never a cell.')),
  },
  { title: 'InstallationRequest', description: 'The call claims a pool without an owner, or confirms the owner.' },
)

export const Installation = Type.Object({ installation_id: Name() }, { title: 'Installation' })

export const QuarantineRequest = Type.Object(
  {
    ...CommandHeader.properties,
    whole: Flag('Everything of the subject.'),
    disks: Type.Array(Name()),
    checkpoints: Type.Array(Name()),
  },
  {
    title: 'QuarantineRequest',
    description: 'Replaces the list of files that are kept although no row names them. A file that stays listed keeps its time.',
  },
)
export type QuarantineRequest = Static<typeof QuarantineRequest>

export const Fenced = Type.Object(CommandHeader.properties, { title: 'Fenced', description: 'A verb that needs its command header only.' })

export const Resources = Type.Object({ cpu_millis: Count(), memory_mib: Count(), disk_gib: Count() }, { title: 'Resources' })
export type Resources = Static<typeof Resources>

/** Mount slots of one machine. A volume keeps its slot until it is detached, across suspends and restores. */
export const VOLUME_PLACES = LIMITS.volume.attachments_per_workspace_max

export const Volume = Type.Object(
  {
    volume_id: Name(),
    place: Type.Integer({
      minimum: 0,
      maximum: VOLUME_PLACES - 1,
      description: "The mount slot: the volume's name below the sandbox's /volumes.",
    }),
    mount_path: Type.String(),
    read_only: Type.Boolean(),
  },
  { title: 'Volume' },
)

export const CheckpointName = Type.Object({ subject: Subject, checkpoint_id: Name() }, { title: 'CheckpointName' })

const volumes = (description: string) => Type.Optional(Type.Array(Volume, { maxItems: VOLUME_PLACES, description }))

export const StartRequest = Type.Object(
  {
    ...CommandHeader.properties,
    resources: Resources,
    hostname: Name(),
    layers: Type.Array(Name(), { description: 'SHA-256 of EROFS images, lowest first.' }),
    full_copy: Flag("A blank disk is filled with the layers' files. It then has no layer below."),
    from_disk: Type.Optional(
      Name(
        'The disk to continue from. Absent: a blank disk. The attempt gets a new snapshot, Machine.disk; on commit the caller moves its pointer there.',
      ),
    ),
    from_layer: Type.Optional(As(CheckpointName, 'A disk-only checkpoint of any subject to start from instead.')),
    tree: Type.Optional(
      Name(
        'The digest of the tree that lies over the layers and under a blank disk. A host with a copy of another tree refuses with tree_stale.',
      ),
    ),
    tree_bytes: Type.Optional(Count()),
    connect: Flag('Packets may leave at once: no guest process runs before the first command.'),
    egress: Type.Optional(As(HostEgress, 'In force before the first packet leaves. Absent: all public addresses, as EgressDefault.')),
    volumes: volumes('Mounted before the first command. A volume that is not on the host is omitted.'),
  },
  { title: 'StartRequest' },
)
export type StartRequest = Static<typeof StartRequest>

export const RestoreRequest = Type.Object(
  {
    ...CommandHeader.properties,
    resources: Resources,
    hostname: Name(),
    checkpoint_id: Name(),
    renew_identity: Flag('For a fork: new hostname, machine-id and SSH host keys.'),
    of: Type.Optional(
      As(Subject, "The owner of the checkpoint. Absent: the subject. Another owner's must have memory, and its identity is renewed."),
    ),
    egress: Type.Optional(As(HostEgress, "As in StartRequest. The saved guest's connections are always closed.")),
    volumes: volumes("They replace the saved guest's volumes."),
  },
  { title: 'RestoreRequest' },
)
export type RestoreRequest = Static<typeof RestoreRequest>

export const VolumesRequest = Type.Object(
  { ...CommandHeader.properties, volumes: Type.Array(Volume, { maxItems: VOLUME_PLACES }) },
  {
    title: 'VolumesRequest',
    description:
      'Names all volumes from now on. volume_busy: a removed volume is in use. mount_refused: see details.why. After either the machine keeps its previous volumes.',
  },
)
export type VolumesRequest = Static<typeof VolumesRequest>

export const VolumeRequest = Type.Object(
  { ...VolumeHeader.properties, quota_gib: Count() },
  { title: 'VolumeRequest', description: 'Creates a volume, or changes its limit.' },
)
export type VolumeRequest = Static<typeof VolumeRequest>

export const KeepVolumeRequest = Type.Object(
  { ...VolumeHeader.properties, keep: Type.Boolean() },
  { title: 'KeepVolumeRequest', description: 'Keeps a volume that the caller does not know. The first time stays recorded.' },
)
export type KeepVolumeRequest = Static<typeof KeepVolumeRequest>

export const CheckpointRequest = Type.Object(
  {
    ...CommandHeader.properties,
    checkpoint_id: Name(),
    into: Type.Optional(As(Subject, 'The owner of the checkpoint: a fork captures directly into its target. Absent: the subject.')),
    into_fence: Type.Optional(Count()),
    then: Enum(['paused', 'running'], {
      description:
        "The guest's next state. paused is for a suspend: the caller commits, then stops or unpauses. running is for a fork or snapshot: the guest runs before the image is synced.",
    }),
    disk_only: Flag('Omits the memory: machines boot from the checkpoint, on any engine. Only with running.'),
    from_disk: Type.Optional(
      Name('Captures this disk, which no machine uses, with the given layers (none for a full copy) and resources. Only with disk_only.'),
    ),
    layers: Type.Optional(Type.Array(Name())),
    resources: Type.Optional(Resources),
    then_blank: Flag('A blank disk follows: refused with disk_full before the capture if too little is left for it. Only with paused.'),
  },
  { title: 'CheckpointRequest' },
)
export type CheckpointRequest = Static<typeof CheckpointRequest>

export const CloneRequest = Type.Object(
  {
    ...CommandHeader.properties,
    source: Subject,
    source_checkpoint_id: Name(),
    checkpoint_id: Name(),
    disk_only: Flag("Omits the memory, which may be damaged. Another subject's copy with memory is refused if it cannot be restored here."),
  },
  { title: 'CloneRequest', description: 'The header names the subject that gets the copy.' },
)
export type CloneRequest = Static<typeof CloneRequest>

export const StopRequest = Type.Object(
  {
    ...CommandHeader.properties,
    machine_epoch: Type.Optional(Count('Protects a successor from a late stop. Absent: any machine.')),
  },
  { title: 'StopRequest' },
)
export type StopRequest = Static<typeof StopRequest>

export const DeleteRequest = Type.Object({ ...CommandHeader.properties, names: Type.Array(Name()) }, { title: 'DeleteRequest' })
export type DeleteRequest = Static<typeof DeleteRequest>

export const HostError = Type.Object(
  {
    code: Type.String({ maxLength: 100, description: 'One of HOST_ERRORS. The cell treats an unknown code as internal.' }),
    message: Type.String(),
    retryable: Type.Boolean({ description: 'The same call may succeed later.' }),
    details: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  },
  { title: 'HostError', description: 'A refusal of hostd.' },
)
