import { randomBytes } from 'node:crypto'
import type { Clock } from '../../../lib/clock.ts'
import {
  HostFailure,
  type CheckpointInfo,
  type CheckpointRequest,
  type CloneRequest,
  type HostEvent,
  type Machine,
  type RestoreRequest,
  type StartRequest,
  type StopRequest,
} from '../hostd.ts'
import { AGENT_PROTOCOLS } from '../agent-protocol.ts'
import { FakeGuest } from './guest.ts'

interface Saved {
  info: CheckpointInfo
  memory: Map<string, string>
  files: Map<string, string>
  ran_ms: number
  corrupt: boolean
}

interface Running {
  machine: Machine
  guest: FakeGuest
}

export interface World {
  clock: Clock
  engine: string
  /** Kept beside it, for the checkpoints that name them. */
  older_engines: string[]
  boot: number
  machines: Map<string, Running>
  disks: Map<string, Map<string, Map<string, string>>>
  checkpoints: Map<string, Map<string, Saved>>
  fences: Map<string, number>
  events: HostEvent[]
  heard: Set<() => void>
}

export function silence(): HostFailure {
  return new HostFailure('unreachable', 'The fake host is unreachable', { retryable: true })
}

/** Its disks are maps in memory, which no file code reads. */
export function noReader(world: World, workspace_id: string): HostFailure {
  if (world.machines.has(workspace_id)) return refusal('already_running', 'The workspace has a machine')
  return refusal('start_failed', 'The fake host has no readers of disks')
}

function refusal(code: ConstructorParameters<typeof HostFailure>[0], message: string): HostFailure {
  return new HostFailure(code, message, { retryable: false })
}

export function refuseLower(world: World, workspace_id: string, fence: number): void {
  const highest = world.fences.get(workspace_id) ?? 0
  if (fence < highest) throw refusal('fenced', `Fence ${fence} is below ${highest}`)
}

export function raiseFence(world: World, workspace_id: string, fence: number): void {
  refuseLower(world, workspace_id, fence)
  world.fences.set(workspace_id, fence)
}

export function running(world: World, request: { workspace_id: string; epoch?: number }): Running {
  const found = world.machines.get(request.workspace_id)
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
  const { workspace_id, epoch, fence, operation_id, resources } = request
  if (world.machines.has(workspace_id)) throw refusal('already_running', 'The workspace has a machine')
  const disk = `e${epoch}.${fence}`
  const files = new Map(state.files)
  inner(world.disks, workspace_id).set(disk, files)
  const machine: Machine = {
    workspace_id,
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
  }
  world.machines.set(workspace_id, { machine, guest: new FakeGuest({ ...state, files }) })
  return { ...machine }
}

export function start(world: World, request: StartRequest): Machine {
  return boot(world, request, contentOf(world, request), world.engine)
}

function contentOf(world: World, { workspace_id, from_disk, from_layer }: StartRequest): Parameters<typeof boot>[2] {
  if (from_layer !== undefined) return layerOf(world, from_layer)
  const files = from_disk === undefined ? new Map<string, string>() : world.disks.get(workspace_id)?.get(from_disk)
  if (!files) throw refusal('not_found', 'There is no such disk')
  return { memory: new Map(), files, ran_ms: 0 }
}

function layerOf(world: World, { workspace_id, checkpoint_id }: { workspace_id: string; checkpoint_id: string }): Saved {
  const saved = world.checkpoints.get(workspace_id)?.get(checkpoint_id)
  if (!saved) throw refusal('not_found', 'There is no such checkpoint')
  if (!saved.info.disk_only) throw refusal('checkpoint_incompatible', 'The checkpoint holds memory')
  return saved
}

export function restore(world: World, request: RestoreRequest): Machine {
  const saved = world.checkpoints.get(request.workspace_id)?.get(request.checkpoint_id)
  if (!saved) throw refusal('not_found', 'There is no such checkpoint')
  if (saved.info.disk_only) throw refusal('checkpoint_incompatible', 'The checkpoint holds no memory')
  if (saved.corrupt) throw refusal('checkpoint_corrupt', 'The checkpoint is damaged')
  if (![world.engine, ...world.older_engines].includes(saved.info.engine))
    throw refusal('checkpoint_incompatible', 'The engine of the checkpoint is not kept')
  return boot(world, request, saved, saved.info.engine)
}

export function setState({ machine, guest }: Running, state: Machine['state']): void {
  machine.state = state
  if (state === 'running') guest.unpause()
  else guest.pause()
}

export function checkpoint(world: World, request: CheckpointRequest): CheckpointInfo {
  const found = running(world, request)
  const owner = request.into_workspace_id ?? request.workspace_id
  if (request.into_workspace_id !== undefined) raiseFence(world, owner, request.into_fence ?? 0)
  setState(found, 'paused')
  const info: CheckpointInfo = {
    checkpoint_id: request.checkpoint_id,
    workspace_id: owner,
    epoch: found.machine.epoch,
    engine: request.disk_only ? '' : found.machine.engine,
    ...(request.disk_only ? { disk_only: true } : {}),
    size_bytes: 1024,
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
  return info
}

export function clone(world: World, request: CloneRequest): CheckpointInfo {
  const saved = world.checkpoints.get(request.source_workspace_id)?.get(request.source_checkpoint_id)
  if (!saved) throw refusal('not_found', 'There is no such checkpoint')
  const disk = request.disk_only === true ? { engine: '', disk_only: true } : {}
  const info = { ...saved.info, checkpoint_id: request.checkpoint_id, workspace_id: request.workspace_id, ...disk }
  inner(world.checkpoints, request.workspace_id).set(request.checkpoint_id, {
    ...saved,
    info,
    files: new Map(saved.files),
    memory: new Map(request.disk_only ? [] : saved.memory),
  })
  return info
}

export function stop(world: World, request: StopRequest): void {
  const found = world.machines.get(request.workspace_id)
  if (!found || ((request.machine_epoch ?? 0) !== 0 && found.machine.epoch !== request.machine_epoch)) return
  found.guest.pause()
  world.machines.delete(request.workspace_id)
}
