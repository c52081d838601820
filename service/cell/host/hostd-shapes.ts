import { Type, type TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { DENIED_PROTOCOLS } from '../../../contract/schemas/egress.ts'
import type { HostDenial } from './egress.ts'
import {
  HOST_ERRORS,
  HostFailure,
  type CheckpointInfo,
  type HostEvent,
  type Inventory,
  type Machine,
  type MachineCounters,
} from './hostd.ts'
import type { DiskReader } from './hostd-disks.ts'
import type { Layer, LayerList, LayersHere } from './hostd-layers.ts'
import { MACHINE_KINDS, type Subject } from './subject.ts'

// hostd is trusted. The checks make an incompatible version fail here by name, and not in an operation with an undefined.

const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const Name = Type.String({ maxLength: 512 })
const SubjectShape = Type.Object({ kind: Type.Union(MACHINE_KINDS.map((kind) => Type.Literal(kind))), id: Name })
const Resources = Type.Object({ cpu_millis: Count, memory_mib: Count, disk_gib: Count })
/** Go writes an empty list as null. */
const ListOf = (item: TSchema) => Type.Union([Type.Array(item), Type.Null()])

const Revision = Type.String({ pattern: '^[a-zA-Z0-9._-]{1,64}$' })

const MachineShape = Type.Object({
  subject: SubjectShape,
  epoch: Count,
  fence: Count,
  operation_id: Name,
  slot: Name,
  state: Type.Union([Type.Literal('running'), Type.Literal('paused'), Type.Literal('frozen')]),
  disk: Name,
  address: Type.String({ pattern: '^[0-9.]{7,15}:[0-9]{1,5}$' }),
  agent_key: Type.String({ minLength: 16, maxLength: 512 }),
  started_at: Name,
  connected: Type.Boolean(),
  freezer_file: Type.Optional(Type.String({ maxLength: 4096 })),
  resources: Resources,
  engine: Name,
  agent_protocol: Count,
  engine_refused: Type.Optional(Type.Boolean()),
  refused_volumes: Type.Optional(Type.Array(Type.Object({ place: Count, why: Name }), { maxItems: 64 })),
  egress: Type.Optional(Type.Object({ revision: Revision, state: Type.Union([Type.Literal('enforced'), Type.Literal('failed')]) })),
})

const CountersShape = Type.Object({
  subject: SubjectShape,
  epoch: Count,
  fence: Count,
  cpu_usec: Count,
  memory_bytes: Count,
  disk_bytes: Count,
  rx_bytes: Count,
  tx_bytes: Count,
  received_bytes: Count,
  sent_bytes: Count,
  ran_ms: Count,
})

const CheckpointShape = Type.Object({
  checkpoint_id: Name,
  subject: SubjectShape,
  epoch: Count,
  fence: Count,
  engine: Name,
  engine_kind: Type.Optional(Name),
  disk_only: Type.Optional(Type.Boolean()),
  size_bytes: Count,
  disk_bytes: Type.Union([Count, Type.Null()]),
  disk: Name,
  created_at: Name,
  paused_ms: Count,
  layers: ListOf(Name),
  resources: Resources,
  counters: Type.Optional(CountersShape),
  memory_refused: Type.Optional(Name),
  missing_features: Type.Optional(Type.Array(Name)),
})

const QuarantinedShape = Type.Object({
  kind: Type.Union([Type.Literal('subject'), Type.Literal('disk'), Type.Literal('checkpoint')]),
  name: Name,
  since: Type.String({ format: 'date-time' }),
})

const InventoryShape = Type.Object({
  instance: Name,
  boot_id: Name,
  host_boot_id: Name,
  engine: Name,
  engines: ListOf(Name),
  last_event: Count,
  installation: Name,
  highest_fence: Count,
  machines: ListOf(MachineShape),
  files: ListOf(
    Type.Object({
      subject: SubjectShape,
      fence: Count,
      disks: ListOf(Name),
      checkpoints: ListOf(CheckpointShape),
      quarantined: ListOf(QuarantinedShape),
    }),
  ),
  volumes: ListOf(
    Type.Object({ volume_id: Type.String({ format: 'uuid' }), kept_since: Type.Optional(Type.String({ format: 'date-time' })) }),
  ),
  slots: Count,
  fitted_slots: Count,
  shells: Count,
  capacity: Type.Object({
    cpu_millis: Count,
    memory_mib: Count,
    headroom_mib: Count,
    disk_gib: Count,
    pool_bytes: Count,
    pool_free_bytes: Count,
    reserve_bytes: Count,
  }),
  resolver: Type.Object({ serving: Type.Boolean(), starts: Count }),
})

const FindingShape = Type.Object({ path: Type.String({ maxLength: 16_384 }), rule: Name, line: Count })
const LayerShape = Type.Object({
  digest: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  size_bytes: Count,
  entries: Count,
  findings: Type.Array(FindingShape, { maxItems: 1000 }),
})

const DIGEST = Type.String({ pattern: '^[0-9a-f]{64}$' })
const LayersHereShape = Type.Object({
  listing: Name,
  layers: Type.Array(Type.Object({ digest: DIGEST, size_bytes: Count, idle_seconds: Count })),
})
const LayersDroppedShape = Type.Object({ dropped: Type.Array(DIGEST) })

const LAYER_TYPES = ['file', 'directory', 'symlink', 'whiteout', 'other'] as const
const LayerListShape = Type.Object({
  directories: Type.Array(
    Type.Object({
      path: Type.String({ pattern: '^/' }),
      entries: Type.Array(
        Type.Object({
          name: Type.String({ minLength: 1 }),
          type: Type.Union(LAYER_TYPES.map((type) => Type.Literal(type))),
          size_bytes: Count,
          mode: Type.Integer({ minimum: 0, maximum: 0o7777 }),
          uid: Count,
          gid: Count,
          sha256: Type.Optional(Type.String({ pattern: '^[0-9a-f]{64}$' })),
          target: Type.Optional(Type.String()),
          opaque: Type.Optional(Type.Boolean()),
          redirect: Type.Optional(Type.String()),
        }),
      ),
    }),
  ),
  done: Type.Boolean(),
})

const DiskReaderShape = Type.Object({
  address: Type.String({ pattern: '^/', maxLength: 108 }),
  agent_key: Type.String({ minLength: 16, maxLength: 512 }),
  epoch: Count,
})

const EventShape = Type.Object({
  seq: Count,
  boot_id: Name,
  kind: Name,
  subject: SubjectShape,
  epoch: Count,
  fence: Count,
  reason: Name,
  at: Name,
  counters: Type.Optional(CountersShape),
})

const StatsShape = Type.Object({ machines: ListOf(CountersShape) })
const EndedShape = Type.Object({ counters: Type.Union([CountersShape, Type.Null()]) })
const MeasuresShape = Type.Object({ disks: ListOf(Type.Object({ subject: SubjectShape, disk_bytes: Count })) })

const VolumeMeasuresShape = Type.Object({ volumes: ListOf(Type.Object({ volume_id: Name, stored_bytes: Count })) })
const EgressSetShape = Type.Object({ revision: Revision })
const OrNull = (shape: TSchema) => Type.Union([shape, Type.Null()])
const DenialsShape = Type.Object({
  denials: ListOf(
    Type.Object({
      name: OrNull(Name),
      address: OrNull(Type.String({ maxLength: 64 })),
      port: Type.Integer({ minimum: 0, maximum: 65535 }),
      protocol: Type.Union(DENIED_PROTOCOLS.map((protocol) => Type.Literal(protocol))),
      count: Count,
      first_at: Type.String({ format: 'date-time' }),
      last_at: Type.String({ format: 'date-time' }),
    }),
  ),
})

const ErrorShape = Type.Object({
  code: Type.String({ maxLength: 100 }), // an unknown code counts as `internal`
  message: Type.String(),
  retryable: Type.Boolean(),
  details: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
})

const subject = Compile(SubjectShape)
const machine = Compile(MachineShape)
const checkpoint = Compile(CheckpointShape)
const inventory = Compile(InventoryShape)
const stats = Compile(StatsShape)
const ended = Compile(EndedShape)
const measures = Compile(MeasuresShape)
const volume_measures = Compile(VolumeMeasuresShape)
const layer = Compile(LayerShape)
const layer_list = Compile(LayerListShape)
const layers_here = Compile(LayersHereShape)
const layers_dropped = Compile(LayersDroppedShape)
const disk_reader = Compile(DiskReaderShape)
const event = Compile(EventShape)
const egress_set = Compile(EgressSetShape)
const denials = Compile(DenialsShape)
const refusal = Compile(ErrorShape)

export function parseSubject(value: unknown): Subject | undefined {
  return subject.Check(value) ? value : undefined
}

export function parseMachine(value: unknown): Machine {
  if (!machine.Check(value)) throw misshapen('a machine')
  return value
}

export function parseCheckpoint(value: unknown): CheckpointInfo {
  if (!checkpoint.Check(value)) throw misshapen('a checkpoint')
  return withLists(value) as CheckpointInfo
}

export function parseInventory(value: unknown): Inventory {
  if (!inventory.Check(value)) throw misshapen('an inventory')
  return withLists(value) as Inventory
}

export function parseStats(value: unknown): MachineCounters[] {
  if (!stats.Check(value)) throw misshapen('a list of counters')
  return (value.machines ?? []) as MachineCounters[]
}

export function parseEnded(value: unknown): MachineCounters | null {
  if (!ended.Check(value)) throw misshapen('the end of a machine')
  return value.counters
}

export function parseMeasures(value: unknown): Map<string, number> {
  if (!measures.Check(value)) throw misshapen('a list of measured disks')
  const disks = (value.disks ?? []) as { subject: Subject; disk_bytes: number }[]
  return new Map(disks.map(({ subject, disk_bytes }) => [subject.id, disk_bytes]))
}

export function parseVolumeMeasures(value: unknown): Map<string, number> {
  if (!volume_measures.Check(value)) throw misshapen('a list of measured volumes')
  const volumes = (value.volumes ?? []) as { volume_id: string; stored_bytes: number }[]
  return new Map(volumes.map(({ volume_id, stored_bytes }) => [volume_id, stored_bytes]))
}

export function parseLayerList(value: unknown): LayerList {
  if (!layer_list.Check(value)) throw misshapen('a piece of a list of a layer')
  return value
}

export function parseLayersHere(value: unknown): LayersHere {
  if (!layers_here.Check(value)) throw misshapen('a look at the layers')
  return value
}

export function parseLayersDropped(value: unknown): string[] {
  if (!layers_dropped.Check(value)) throw misshapen('a removal of layers')
  return value.dropped
}

export function parseLayer(value: unknown): Layer {
  if (!layer.Check(value)) throw misshapen('a layer')
  return value
}

export function parseDiskReader(value: unknown): DiskReader {
  if (!disk_reader.Check(value)) throw misshapen('a reader of a disk')
  return value
}

export function parseEvent(value: unknown): HostEvent {
  if (!event.Check(value)) throw misshapen('an event')
  return value
}

export function parseEgressSet(value: unknown): { revision: string } {
  if (!egress_set.Check(value)) throw misshapen('an acknowledged policy')
  return value
}

export function parseDenials(value: unknown): HostDenial[] {
  if (!denials.Check(value)) throw misshapen('a list of denials')
  return (value.denials ?? []) as HostDenial[]
}

/** Turns a refused verb into a failure. An answer that is no refusal counts as hostd's mistake. */
export function parseRefusal(status: number, value: unknown): HostFailure {
  if (!refusal.Check(value))
    return new HostFailure('invalid_answer', `The machine host answered ${status} without saying why`, { retryable: false })
  const code = HOST_ERRORS.find((known) => known === value.code) ?? 'internal'
  return new HostFailure(code, value.message, { retryable: value.retryable, details: value.details ?? {} })
}

function misshapen(what: string): HostFailure {
  return new HostFailure('invalid_answer', `The machine host's answer is not ${what}`, { retryable: false })
}

const LISTS = new Set(['engines', 'machines', 'files', 'disks', 'checkpoints', 'layers', 'quarantined'])

function withLists(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withLists)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, inner === null && LISTS.has(key) ? [] : withLists(inner)]))
}
