import { Compile } from 'typebox/compile'
import { DiskReader, Measures, VolumeMeasures } from '../../../contract/internal/host-disks.ts'
import { EgressDenials, EgressRevision, type HostDenial } from '../../../contract/internal/host-egress.ts'
import { HOST_ERRORS, type HostErrorCode } from '../../../contract/internal/host-errors.ts'
import {
  CheckpointInfo,
  Ended,
  HostEvent,
  Inventory,
  Machine,
  type MachineCounters,
  Stats,
} from '../../../contract/internal/host-inventory.ts'
import { Layer, LayerList, LayersDropped, LayersHere } from '../../../contract/internal/host-layers.ts'
import { Subject } from '../../../contract/internal/host-subject.ts'
import { HostError } from '../../../contract/internal/host.ts'
import { withLists } from '../../lib/null-lists.ts'
import { HostFailure } from './hostd.ts'

// hostd is trusted. These checks make an incompatible version fail here with a specific error, and not later in an operation.

const subject = Compile(Subject)
const machine = Compile(Machine)
const checkpoint = Compile(CheckpointInfo)
const inventory = Compile(Inventory)
const stats = Compile(Stats)
const ended = Compile(Ended)
const measures = Compile(Measures)
const volume_measures = Compile(VolumeMeasures)
const layer = Compile(Layer)
const layer_list = Compile(LayerList)
const layers_here = Compile(LayersHere)
const layers_dropped = Compile(LayersDropped)
const disk_reader = Compile(DiskReader)
const event = Compile(HostEvent)
const egress_set = Compile(EgressRevision)
const denials = Compile(EgressDenials)
const refusal = Compile(HostError)

export function parseSubject(value: unknown): Subject | undefined {
  return subject.Check(value) ? value : undefined
}

export function parseMachine(value: unknown): Machine {
  if (!machine.Check(value)) throw misshapen('a machine')
  return value
}

export function parseCheckpoint(value: unknown): CheckpointInfo {
  if (!checkpoint.Check(value)) throw misshapen('a checkpoint')
  return withLists(value, LISTS) as CheckpointInfo
}

export function parseInventory(value: unknown): Inventory {
  if (!inventory.Check(value)) throw misshapen('an inventory')
  return withLists(value, LISTS) as Inventory
}

export function parseStats(value: unknown): MachineCounters[] {
  if (!stats.Check(value)) throw misshapen('a list of counters')
  return value.machines ?? []
}

export function parseEnded(value: unknown): MachineCounters | null {
  if (!ended.Check(value)) throw misshapen('the end of a machine')
  return value.counters
}

export function parseMeasures(value: unknown): Map<string, number> {
  if (!measures.Check(value)) throw misshapen('a list of measured disks')
  return new Map((value.disks ?? []).map(({ subject, disk_bytes }) => [subject.id, disk_bytes]))
}

export function parseVolumeMeasures(value: unknown): Map<string, number> {
  if (!volume_measures.Check(value)) throw misshapen('a list of measured volumes')
  return new Map((value.volumes ?? []).map(({ volume_id, stored_bytes }) => [volume_id, stored_bytes]))
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

export function parseEgressSet(value: unknown): EgressRevision {
  if (!egress_set.Check(value)) throw misshapen('an acknowledged policy')
  return value
}

export function parseDenials(value: unknown): HostDenial[] {
  if (!denials.Check(value)) throw misshapen('a list of denials')
  return value.denials ?? []
}

/** Turns a refused verb into a failure. An answer that is no refusal counts as hostd's mistake. */
export function parseRefusal(status: number, value: unknown): HostFailure {
  if (!refusal.Check(value))
    return new HostFailure('invalid_answer', `The machine host answered ${status} without saying why`, { retryable: false })
  const code = Object.hasOwn(HOST_ERRORS, value.code) ? (value.code as HostErrorCode) : 'internal'
  return new HostFailure(code, value.message, { retryable: value.retryable, details: value.details ?? {} })
}

function misshapen(what: string): HostFailure {
  return new HostFailure('invalid_answer', `The machine host's answer is not ${what}`, { retryable: false })
}

const LISTS = new Set(['engines', 'machines', 'files', 'disks', 'checkpoints', 'layers', 'quarantined'])
