import { randomBytes } from 'node:crypto'
import { AGENT_PROTOCOLS } from '../../../../contract/internal/agent.ts'
import type { MachineVolume } from '../../../db/column-types.ts'
import type { Clock } from '../../../lib/clock.ts'
import { HostFailure } from '../hostd.ts'
import type { MemoryRefusal } from '../../../../contract/errors.ts'
import type { HostDenial, HostEgress, SetEgressRequest } from '../../../../contract/internal/host-egress.ts'
import type { CheckpointInfo, HostEvent, Machine, MachineCounters, Quarantined } from '../../../../contract/internal/host-inventory.ts'
import { MACHINE_KINDS, type Subject } from '../../../../contract/internal/host-subject.ts'
import type { TreeApplyRequest, TreeChangesRequest } from '../../../../contract/internal/host-trees.ts'
import type {
  CheckpointRequest,
  CloneRequest,
  QuarantineRequest,
  RestoreRequest,
  StartRequest,
  StopRequest,
} from '../../../../contract/internal/host.ts'
import { subjectName, workspaceSubject } from '../subject.ts'
import { FakeGuest } from './guest.ts'
import type { LayerBook } from './layers.ts'
import { savedFor } from './saved-for.ts'
import { given, leftOut } from './volumes-given.ts'

export const DISK_BYTES = 2 ** 20

interface Saved {
  info: CheckpointInfo
  memory: Map<string, string>
  files: Map<string, string>
  ran_ms: number
  corrupt: boolean
  /** Set by a test: the reason for which its memory is refused. */
  refused?: MemoryRefusal
}

interface Running {
  machine: Machine
  egress?: HostEgress
  denials: HostDenial[]
  guest: FakeGuest
  volumes: MachineVolume[]
}

export interface World {
  clock: Clock
  engine: string
  older_engines: string[]
  refused_engines: Set<string>
  boot: number
  machines: Map<string, Running>
  disks: Map<string, Map<string, Map<string, string>>>
  checkpoints: Map<string, Map<string, Saved>>
  fences: Map<string, number>
  /** The installation that owns the pool; null: not claimed. */
  installation: string | null
  /** The installation that the caller claims to be; null: none yet. */
  caller: string | null
  quarantined: Map<string, Quarantined[]>
  volumes: Set<string>
  /** Volumes that no row names, each with the time of its mark. */
  kept_volumes: Map<string, string>
  layers: Map<string, Map<string, string>>
  layer_book: LayerBook
  trees: Map<string, string>
  last: Map<string, MachineCounters>
  events: HostEvent[]
  heard: Set<() => void>
}

export function silence(): HostFailure {
  return new HostFailure('unreachable', 'The fake host is unreachable', { retryable: true })
}

/** The refusal of every disk read: the disks are maps in memory, which no reader can read. */
export function noReader(world: World, workspace_id: string): HostFailure {
  if (world.machines.has(workspace_id)) return refusal('already_running', 'The workspace has a machine')
  return refusal('start_failed', 'The fake host has no readers of disks')
}

function refusal(code: ConstructorParameters<typeof HostFailure>[0], message: string, details: Record<string, unknown> = {}): HostFailure {
  return new HostFailure(code, message, { retryable: false, details })
}

/** The reason why the memory cannot be restored now; undefined: there is none, or the checkpoint has no memory. */
export function memoryRefused(world: World, { info, refused }: Saved): MemoryRefusal | undefined {
  if (info.disk_only) return undefined
  if (refused !== undefined) return refused
  if (world.refused_engines.has(info.engine)) return 'engine_refused'
  return [world.engine, ...world.older_engines].includes(info.engine) ? undefined : 'engine_not_kept'
}

export function missingFor(why: MemoryRefusal): { missing_features?: string[] } {
  return why === 'processor' ? { missing_features: ['FAKEFEATURE'] } : {}
}

function refuseMemory(world: World, saved: Saved): void {
  const why = saved.corrupt && !saved.info.disk_only ? 'damaged' : memoryRefused(world, saved)
  if (why === undefined) return
  const { subject, checkpoint_id } = saved.info
  const code = why === 'damaged' ? 'checkpoint_corrupt' : 'checkpoint_incompatible'
  throw refusal(code, 'The memory is not restored here', { why, subject, checkpoint_id, disk_is_whole: true, ...missingFor(why) })
}

export function refuseStranger({ installation, caller }: World): void {
  if (installation !== null && installation !== caller)
    throw refusal('wrong_installation', `The pool belongs to installation ${installation}`)
}

export function claim(world: World, installation_id: string): void {
  if (world.installation !== null && world.installation !== installation_id)
    throw refusal('wrong_installation', `The pool belongs to installation ${world.installation}`)
  world.installation = world.caller = installation_id
}

/** Replaces the list. Names that were already in it retain their time. */
export function quarantine(world: World, { subject, whole, disks, checkpoints }: QuarantineRequest): void {
  const subject_name = subjectName(subject)
  if (!world.disks.has(subject_name) && !world.checkpoints.has(subject_name)) throw refusal('not_found', 'The workspace has no files here')
  const before = world.quarantined.get(subject_name) ?? []
  const now = world.clock.now().toISOString()
  const entry = (kind: Quarantined['kind']) => (name: string) =>
    before.find((one) => one.kind === kind && one.name === name) ?? { kind, name, since: now }
  world.quarantined.set(subject_name, [
    ...(whole === true ? [subject_name] : []).map(entry('subject')),
    ...disks.map(entry('disk')),
    ...checkpoints.map(entry('checkpoint')),
  ])
}

export function refuseLower(world: World, owner: string, fence: number): void {
  const highest = world.fences.get(owner) ?? 0
  if (fence < highest) throw refusal('fenced', `Fence ${fence} is below ${highest}`)
}

export function raiseFence(world: World, owner: string, fence: number): void {
  refuseLower(world, owner, fence)
  world.fences.set(owner, fence)
}

export function running(world: World, request: { subject: Subject; epoch?: number }): Running {
  const found = world.machines.get(subjectName(request.subject))
  if (!found) throw refusal('not_running', 'The workspace has no machine')
  if (request.epoch !== undefined && request.epoch !== found.machine.epoch)
    throw refusal('not_running', `Its machine is of epoch ${found.machine.epoch}`)
  return found
}

function inner<V>(map: Map<string, Map<string, V>>, key: string): Map<string, V> {
  const known = map.get(key)
  if (known) return known
  const made = new Map<string, V>()
  map.set(key, made)
  return made
}

function boot(
  world: World,
  request: StartRequest | RestoreRequest,
  state: { memory: Map<string, string>; files: Map<string, string>; ran_ms: number },
  engine: string,
): Machine {
  const { subject, epoch, fence, operation_id, resources } = request
  const owner = subjectName(subject)
  if (world.machines.has(owner)) throw refusal('already_running', 'The workspace has a machine')
  const disk = `e${epoch}.${fence}`
  const files = new Map(state.files)
  inner(world.disks, owner).set(disk, files)
  const machine: Machine = {
    subject,
    epoch,
    fence,
    operation_id,
    slot: randomBytes(4).toString('hex'),
    state: 'running',
    disk,
    address: '127.0.0.1:9',
    agent_key: randomBytes(16).toString('hex'),
    started_at: world.clock.now().toISOString(),
    connected: 'connect' in request && request.connect,
    resources,
    engine,
    agent_protocol: AGENT_PROTOCOLS.current,
    egress: { revision: request.egress?.revision ?? 'default', state: 'enforced' },
    ...leftOut(world.volumes, request.volumes),
  }
  world.last.delete(owner)
  const { egress } = request
  world.machines.set(owner, {
    machine,
    guest: new FakeGuest({ ...state, files }),
    volumes: given(world.volumes, request.volumes),
    denials: [],
    ...(egress === undefined ? {} : { egress }),
  })
  return { ...machine }
}

function refuseEngine(world: World): void {
  if (world.refused_engines.has(world.engine)) throw refusal('start_failed', 'The engine may start nothing', { why: 'engine_refused' })
}

export function start(world: World, request: StartRequest): Machine {
  refuseEngine(world)
  if (request.tree !== undefined) checkTree(world, request.subject, request.tree)
  return boot(world, request, contentOf(world, request), world.engine)
}

export function checkTree(world: World, subject: Subject, wanted: string): void {
  const digest = world.trees.get(subjectName(subject)) ?? ''
  if (digest !== wanted) throw refusal('tree_stale', 'The copy is of another tree', { digest })
}

export async function applyTree(world: World, { subject, from, to }: TreeApplyRequest, entries: AsyncIterable<Buffer>): Promise<void> {
  if (from !== undefined) checkTree(world, subject, from)
  world.trees.delete(subjectName(subject))
  for await (const _piece of entries); // read, as a host does
  world.trees.set(subjectName(subject), to)
}

export async function* treeChanges(world: World, { subject, disk }: TreeChangesRequest): AsyncGenerator<Buffer> {
  const runs = world.machines.get(subjectName(subject))
  if (runs !== undefined && runs.machine.disk !== disk) throw refusal('already_running', 'A machine runs on another disk')
  if (runs !== undefined) setState(runs, 'frozen')
  const files = world.disks.get(subjectName(subject))?.get(disk)
  if (!files) throw refusal('not_found', 'There is no such disk')
  const line = (entry: object) => Buffer.from(`${JSON.stringify(entry)}\n`)
  if (files.size > 0) yield line({ path: '', type: 'directory', mode: 0o755, modified_ms: 1 })
  for (const [path, text] of files) {
    yield line({ path, type: 'file', mode: 0o644, modified_ms: 1, size: Buffer.byteLength(text) })
    yield Buffer.from(text)
  }
  yield line({ path: '', type: 'end' })
}

function contentOf(world: World, { subject, from_disk, from_layer, layers }: StartRequest): Parameters<typeof boot>[2] {
  if (from_layer !== undefined) return layerOf(world, from_layer)
  const below = layers.flatMap((digest) => [...(world.layers.get(digest) ?? [])])
  const files = from_disk === undefined ? new Map(below) : world.disks.get(subjectName(subject))?.get(from_disk)
  if (!files) throw refusal('not_found', 'There is no such disk')
  return { memory: new Map(), files, ran_ms: 0 }
}

function layerOf(world: World, { subject, checkpoint_id }: { subject: Subject; checkpoint_id: string }): Saved {
  const saved = world.checkpoints.get(subjectName(subject))?.get(checkpoint_id)
  if (!saved) throw refusal('not_found', 'There is no such checkpoint')
  if (!saved.info.disk_only) throw refusal('checkpoint_incompatible', 'The checkpoint holds memory')
  return saved
}

export function restore(world: World, request: RestoreRequest): Machine {
  const saved = savedFor(world.checkpoints, request)
  if (saved.info.disk_only) refuseEngine(world)
  refuseMemory(world, saved)
  return boot(world, request, saved, saved.info.disk_only ? world.engine : saved.info.engine)
}

export function setEgress(world: World, request: SetEgressRequest): { revision: string } {
  const found = running(world, request)
  found.egress = request.egress
  const { revision } = request.egress
  found.machine.egress = { revision, state: 'enforced' }
  return { revision }
}

export function setState({ machine, guest }: Running, state: Machine['state']): void {
  machine.state = state
  if (state === 'running') guest.unpause()
  else guest.pause()
}

export function checkpoint(world: World, request: CheckpointRequest): CheckpointInfo {
  if (request.from_disk !== undefined) return checkpointDisk(world, request, request.from_disk)
  const found = running(world, request)
  const owner = subjectName(request.into ?? request.subject)
  if (owner !== subjectName(request.subject) && world.refused_engines.has(found.machine.engine)) {
    const details = { why: 'engine_refused', subject: request.subject }
    throw refusal('checkpoint_incompatible', 'The engine may start nothing', details)
  }
  if (request.into !== undefined) raiseFence(world, owner, request.into_fence ?? 0)
  setState(found, 'paused')
  const info: CheckpointInfo = {
    checkpoint_id: request.checkpoint_id,
    subject: request.into ?? request.subject,
    epoch: found.machine.epoch,
    fence: request.fence,
    engine: request.disk_only ? '' : found.machine.engine,
    ...(request.disk_only ? { disk_only: true } : {}),
    size_bytes: 1024,
    disk_bytes: DISK_BYTES,
    disk: `checkpoint-${request.checkpoint_id}`,
    created_at: world.clock.now().toISOString(),
    paused_ms: 0,
    layers: [],
    resources: found.machine.resources,
  }
  const { memory, files } = found.guest
  inner(world.checkpoints, owner).set(info.checkpoint_id, {
    info,
    memory: new Map(request.disk_only ? [] : memory),
    files: new Map(files),
    ran_ms: request.disk_only ? 0 : found.guest.count(),
    corrupt: false,
  })
  if (request.then === 'running') setState(found, 'running')
  return { ...info, counters: stats(world, found) }
}

function checkpointDisk(world: World, request: CheckpointRequest, disk: string): CheckpointInfo {
  const { subject, checkpoint_id, epoch, layers = [], resources = { cpu_millis: 0, memory_mib: 0, disk_gib: 0 } } = request
  const owner = subjectName(subject)
  if (world.machines.has(owner)) throw refusal('already_running', 'The workspace has a machine')
  const files = world.disks.get(owner)?.get(disk)
  if (!files) throw refusal('not_found', 'There is no such disk')
  const info: CheckpointInfo = {
    checkpoint_id,
    subject,
    epoch,
    fence: request.fence,
    engine: '',
    disk_only: true,
    size_bytes: 0,
    disk_bytes: DISK_BYTES,
    disk: `checkpoint-${checkpoint_id}`,
    created_at: world.clock.now().toISOString(),
    paused_ms: 0,
    layers,
    resources,
  }
  inner(world.checkpoints, owner).set(checkpoint_id, { info, memory: new Map(), files: new Map(files), ran_ms: 0, corrupt: false })
  return info
}

export function clone(world: World, request: CloneRequest): CheckpointInfo {
  const saved = world.checkpoints.get(subjectName(request.source))?.get(request.source_checkpoint_id)
  if (!saved) throw refusal('not_found', 'There is no such checkpoint')
  if (!request.disk_only && (saved.corrupt || subjectName(request.subject) !== subjectName(request.source))) refuseMemory(world, saved)
  const disk = request.disk_only === true ? { engine: '', disk_only: true } : {}
  const info = { ...saved.info, checkpoint_id: request.checkpoint_id, subject: request.subject, fence: request.fence, ...disk }
  inner(world.checkpoints, subjectName(request.subject)).set(request.checkpoint_id, {
    ...saved,
    info,
    files: new Map(saved.files),
    memory: new Map(request.disk_only ? [] : saved.memory),
    ran_ms: request.disk_only ? 0 : saved.ran_ms,
    corrupt: saved.corrupt && !request.disk_only,
  })
  return info
}

export function stop(world: World, request: StopRequest): MachineCounters | null {
  const owner = subjectName(request.subject)
  const found = world.machines.get(owner)
  if (!found) return world.last.get(owner) ?? null
  if ((request.machine_epoch ?? 0) !== 0 && found.machine.epoch !== request.machine_epoch) return null
  found.guest.pause()
  world.machines.delete(owner)
  const last = stats(world, found)
  world.last.set(owner, last)
  return last
}

/** A fake guest uses one processor and sends one byte a millisecond while it works. */
export function stats(world: World, { machine, guest }: Running): MachineCounters {
  const { subject, epoch, fence, resources, started_at } = machine
  const worked_ms = Math.round(guest.used())
  return {
    subject,
    epoch,
    fence,
    cpu_usec: worked_ms * 1000,
    memory_bytes: resources.memory_mib * 2 ** 20,
    disk_bytes: DISK_BYTES,
    rx_bytes: 0,
    tx_bytes: worked_ms,
    received_bytes: 0,
    sent_bytes: worked_ms,
    ran_ms: Math.max(0, world.clock.now().getTime() - Date.parse(started_at)),
  }
}

export function subjectNamed(name: string): Subject {
  const [id, kind] = name.split('.').reverse()
  const known = MACHINE_KINDS.find((one) => one === kind)
  return known === undefined || id === undefined ? workspaceSubject(name) : { kind: known, id }
}
