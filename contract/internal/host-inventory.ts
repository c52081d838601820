import Type, { type Static } from 'typebox'
import { Enum, Nullable } from '../schemas/common.ts'
import { EgressInForce } from './host-egress.ts'
import { Resources } from './host.ts'
import { Subject } from './host-subject.ts'
import { As, Count, Flag, ListOf, Name, type Parsed } from './values.ts'

// Answers of hostd about machines, checkpoints and the computer.

export const MachineCounters = Type.Object(
  {
    subject: Subject,
    epoch: Count(),
    fence: Count('With the subject it identifies the machine.'),
    cpu_usec: Count(),
    memory_bytes: Count(),
    disk_bytes: Count(),
    rx_bytes: Count("All traffic of its link, including hostd's and the cell's own calls."),
    tx_bytes: Count(),
    received_bytes: Count('From the uplink, after the firewall.'),
    sent_bytes: Count(),
    ran_ms: Count('Since its claim, including paused time.'),
  },
  { title: 'MachineCounters', description: 'Usage of one machine since its start.' },
)
export type MachineCounters = Static<typeof MachineCounters>

export const Ended = Type.Object(
  { counters: Nullable(As(MachineCounters, 'Final: the guest runs no further instruction. null without a machine.')) },
  { title: 'Ended', description: 'The answer is repeated for some minutes, until the subject has another machine.' },
)

export const Stats = Type.Object({ machines: ListOf(MachineCounters) }, { title: 'Stats' })

export const RefusedVolume = Type.Object(
  { place: Count(), why: Name() },
  { title: 'RefusedVolume', description: 'A volume that could not be mounted.' },
)
export type RefusedVolume = Static<typeof RefusedVolume>

export const Machine = Type.Object(
  {
    subject: Subject,
    epoch: Count(),
    fence: Count(),
    operation_id: Name(),
    slot: Name(),
    state: Enum(['running', 'paused', 'frozen']),
    disk: Name(),
    address: Type.String({ pattern: '^[0-9.]{7,15}:[0-9]{1,5}$', description: 'Of the agent, host:port.' }),
    agent_key: Type.String({ minLength: 16, maxLength: 512 }),
    started_at: Name(),
    connected: Type.Boolean({ description: 'Its packets may leave.' }),
    egress: Type.Optional(As(EgressInForce, 'Absent: the host enforces no policy yet.')),
    freezer_file: Type.Optional(Type.String({ maxLength: 4096 })),
    resources: Resources,
    engine: Name('Version of the build that it runs under.'),
    agent_protocol: Count('Protocol version of its agent, AgentProtocolMin to AgentProtocol.'),
    engine_refused: Flag('The machine runs on, but its memory will not be restored.'),
    refused_volumes: Type.Optional(Type.Array(RefusedVolume, { maxItems: 64, description: 'Volumes that its start or restore omitted.' })),
  },
  { title: 'Machine' },
)
export type Machine = Static<typeof Machine>

export const CheckpointInfo = Type.Object(
  {
    checkpoint_id: Name(),
    subject: Subject,
    epoch: Count(),
    fence: Count('Of the attempt that made it.'),
    engine: Name('Version of the runsc build that wrote it and restores it; "" without memory.'),
    engine_kind: Type.Optional(Name('EngineGVisor. Absent without memory.')),
    disk_only: Flag(),
    size_bytes: Count(),
    disk_bytes: Nullable(Count('Bytes that the captured disk refers to, shared or not; null: an older release wrote the checkpoint.')),
    disk: Name('The captured disk inside the checkpoint.'),
    created_at: Name(),
    paused_ms: Count('How long the guest was paused. Only of a capture that left it running.'),
    layers: ListOf(Name()),
    resources: Resources,
    counters: Type.Optional(As(MachineCounters, "Read after the capture. Only in the answer to a machine's checkpoint.")),
    memory_refused: Type.Optional(
      Name(
        'The reason for which its memory cannot be restored here now, of MEMORY_REFUSALS. Only in an inventory. Absent: it can, or there is none.',
      ),
    ),
    missing_features: Type.Optional(
      Type.Array(Name(), { description: 'CPU features that this processor lacks, if known. Only in an inventory.' }),
    ),
  },
  { title: 'CheckpointInfo', description: "A finished checkpoint's manifest." },
)
export type CheckpointInfo = Parsed<typeof CheckpointInfo>

export const Quarantined = Type.Object(
  {
    kind: Enum(['subject', 'disk', 'checkpoint'], { description: 'subject: all of it.' }),
    name: Name(),
    since: Type.String({ format: 'date-time' }),
  },
  { title: 'Quarantined' },
)
export type Quarantined = Static<typeof Quarantined>

export const SubjectFiles = Type.Object(
  {
    subject: Subject,
    fence: Count(),
    disks: ListOf(Name()),
    checkpoints: ListOf(CheckpointInfo),
    quarantined: ListOf(Quarantined),
  },
  { title: 'SubjectFiles' },
)
export type SubjectFiles = Parsed<typeof SubjectFiles>

export const VolumeHere = Type.Object(
  {
    volume_id: Type.String({ format: 'uuid' }),
    kept_since: Type.Optional(
      Type.String({ format: 'date-time', description: 'The time since which it is kept without a row. Absent: it is not marked as kept.' }),
    ),
  },
  { title: 'VolumeHere', description: 'A volume on this host, even an unfinished one.' },
)
export type VolumeHere = Static<typeof VolumeHere>

export const HostCapacity = Type.Object(
  {
    cpu_millis: Count(),
    memory_mib: Count(),
    headroom_mib: Count("Part of that memory that each machine takes beyond its guest's memory."),
    disk_gib: Count(),
    pool_bytes: Count(),
    pool_free_bytes: Count(),
    reserve_bytes: Count(),
  },
  { title: 'HostCapacity' },
)
export type HostCapacity = Static<typeof HostCapacity>

export const Resolver = Type.Object(
  { serving: Type.Boolean(), starts: Count('Since hostd began: more than one means that it died.') },
  { title: 'Resolver', description: 'The DNS resolver of the machines.' },
)

export const Inventory = Type.Object(
  {
    instance: Name(),
    boot_id: Name('Of this hostd process: events are counted from its start.'),
    host_boot_id: Name('Of this run of the computer.'),
    engine: Name('Version that new sandboxes run under.'),
    engine_refused: Flag('Nothing is started under `engine`.'),
    engines: ListOf(Name(), 'Versions of every kept build: checkpoints of others do not restore.'),
    last_event: Count(),
    installation: Name('The installation that owns the pool; "": no owner.'),
    highest_fence: Count('The highest fencing token that a verb has named here, of deleted subjects too while they are remembered.'),
    machines: ListOf(Machine),
    files: ListOf(SubjectFiles),
    volumes: ListOf(VolumeHere, 'Only with files.'),
    slots: Count('Warm sandboxes, ready to be claimed.'),
    fitted_slots: Count("Warm sandboxes that have a template's blank disk already."),
    shells: Count('Blank sandboxes, ready for a restore.'),
    capacity: HostCapacity,
    resolver: Resolver,
  },
  { title: 'Inventory' },
)
export type Inventory = Parsed<typeof Inventory>

export const HostEvent = Type.Object(
  {
    seq: Count(),
    boot_id: Name(),
    kind: Name('died'),
    subject: Subject,
    epoch: Count(),
    fence: Count(),
    reason: Name('killed, out_of_memory'),
    at: Name(),
    counters: Type.Optional(As(MachineCounters, 'The last counters of a machine that died. Absent if they could not be read.')),
  },
  { title: 'HostEvent' },
)
export type HostEvent = Static<typeof HostEvent>

export const Leftovers = Type.Object(
  { found: Type.Array(Type.String()), removed_total: Count('Since hostd began.') },
  {
    title: 'Leftovers',
    description: "Orphans: objects of kernel or disk with the instance's name that hostd does not own. Two sweeps in a row remove one.",
  },
)
export type Leftovers = Static<typeof Leftovers>

export const FirewallFound = Type.Object(
  {
    name: Type.String(),
    state: Enum(['open', 'closed', 'manual'], {
      description: "open: the instance's rules are in it; closed: they could not be inserted; manual: not tried.",
    }),
    why: Type.Optional(Type.String({ description: 'The reason for closed.' })),
    recipe: Type.Array(Type.String(), { description: "Commands that an operator can run to let machines' packets through." }),
  },
  { title: 'FirewallFound' },
)
export type FirewallFound = Static<typeof FirewallFound>

export const Firewalls = Type.Object(
  { found: Type.Array(FirewallFound) },
  { title: 'Firewalls', description: "Firewalls that can also drop machines' packets; empty if packets do not leave through the host." },
)
export type Firewalls = Static<typeof Firewalls>
