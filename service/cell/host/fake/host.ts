import type { MemoryRefusal } from '../../../../contract/errors.ts'
import type { HostDenial, HostEgress, SetEgressRequest } from '../../../../contract/internal/host-egress.ts'
import type { HostEvent, Inventory, Machine, MachineCounters } from '../../../../contract/internal/host-inventory.ts'
import type { LayerRequest } from '../../../../contract/internal/host-layers.ts'
import type { CommandHeader, Subject, VolumeHeader } from '../../../../contract/internal/host-subject.ts'
import type {
  CheckpointRequest,
  CloneRequest,
  KeepVolumeRequest,
  QuarantineRequest,
  RestoreRequest,
  StartRequest,
  StopRequest,
  VolumeRequest,
  VolumesRequest,
} from '../../../../contract/internal/host.ts'
import type { MachineVolume } from '../../../db/column-types.ts'
import { systemClock, type Clock } from '../../../lib/clock.ts'
import type { MachineHost } from '../hostd.ts'
import { subjectName, workspaceSubject } from '../subject.ts'
import type { FakeGuest } from './guest.ts'
import { beginOn, dropLayers, keepLayers, layersHere, listLayer, makeLayer } from './layers.ts'
import { deleteVolume, keepVolume, setVolumes, volumesHere } from './volumes.ts'
import { VerbQueue, type Done, type Hook, type Verb, type When } from './verb-queue.ts'
import {
  applyTree,
  checkpoint,
  claim,
  clone,
  DISK_BYTES,
  memoryRefused,
  missingFor,
  noReader,
  quarantine,
  restore,
  running,
  setEgress,
  setState,
  stats,
  silence,
  start,
  stop,
  subjectNamed,
  treeChanges,
  type World,
} from './world.ts'

export interface FakeOptions {
  capacity?: { cpu_millis: number; memory_mib: number; disk_gib: number; headroom_mib?: number; pool_free_bytes?: number }
  engine?: string
  latency_ms?: number
  clock?: Clock
}

/** A machine host in memory, with state and faults for tests. */
export interface FakeHost extends MachineHost {
  /** @param of a workspace's id, or a subject. */
  guest(of: string | Subject): FakeGuest
  volumes(of: string | Subject): MachineVolume[]
  egressOf(of: string | Subject): HostEgress | undefined
  deny(of: string | Subject, denials: HostDenial[]): void
  /** Simulates rules that were changed on the host and could not be reapplied. */
  breakEgress(of: string | Subject): void
  kill(of: string | Subject, reason?: string): void
  /** Runs before or after the work of a verb. An error becomes the verb's answer. */
  intercept(verb: Verb, when: When, hook: Hook): Disposable
  /** false: no call is answered, as when hostd is down. Machines continue to run. */
  setReachable(reachable: boolean): void
  /** Restarts hostd, which forgets finished steps. Machines continue to run. */
  restart(): void
  /** Restarts the computer: all machines end. */
  reboot(): void
  corrupt(checkpoint_id: string): void
  /** Refuses to restore the checkpoint's memory from now on; undefined: restores it again. The disk is not damaged. */
  refuseMemory(checkpoint_id: string, why: MemoryRefusal | undefined): void
  /** Restarts hostd, which starts no machine with these engines any more. */
  refuseEngines(engines: string[]): void
  /** Restarts hostd with another engine. The previous engine is still available, unless it is lost. */
  upgrade(engine: string, before: 'kept' | 'lost'): void
  readonly done: readonly Done[]
}

export function createFakeHost(options: FakeOptions = {}): FakeHost {
  const world: World = {
    clock: options.clock ?? systemClock,
    engine: options.engine ?? 'fake-1',
    older_engines: [],
    refused_engines: new Set(),
    boot: 1,
    machines: new Map(),
    disks: new Map(),
    checkpoints: new Map(),
    fences: new Map(),
    installation: null,
    caller: null,
    quarantined: new Map(),
    volumes: new Set(),
    kept_volumes: new Map(),
    layers: new Map(),
    layer_book: { dropped: new Set(), asked: new Map(), looks: 0, users: new Map() },
    trees: new Map(),
    last: new Map(),
    events: [],
    heard: new Set(),
  }
  const turns = new VerbQueue(world, options.latency_ms ?? 0)
  return { ...machineVerbs(world, turns), ...listening(world, turns, options), ...breaking(world, turns) }
}

function machineVerbs(world: World, turns: VerbQueue): Pick<MachineHost, Verb> {
  return {
    start: turns.verb('start', (request: StartRequest) => {
      beginOn(world, request)
      return start(world, request)
    }),
    restore: turns.verb('restore', (request: RestoreRequest) => restore(world, request)),
    setEgress: turns.beside('setEgress', (request: SetEgressRequest) => setEgress(world, request)),
    connect: turns.verb('connect', (request: CommandHeader) => void (running(world, request).machine.connected = true)),
    checkpoint: turns.verb('checkpoint', (request: CheckpointRequest) => checkpoint(world, request)),
    unpause: turns.verb('unpause', (request: CommandHeader) => setState(running(world, request), 'running')),
    freeze: turns.verb('freeze', (request: CommandHeader) => setState(running(world, request), 'frozen')),
    thaw: turns.verb('thaw', (request: CommandHeader) => setState(running(world, request), 'running')),
    stop: turns.verb('stop', (request: StopRequest) => stop(world, request)),
    cloneCheckpoint: turns.verb('cloneCheckpoint', (request: CloneRequest) => clone(world, request)),
    deleteCheckpoints: turns.verb('deleteCheckpoints', (request) =>
      request.names.forEach((name) => world.checkpoints.get(subjectName(request.subject))?.delete(name)),
    ),
    deleteDisks: turns.verb('deleteDisks', (request) =>
      request.names.forEach((name) => world.disks.get(subjectName(request.subject))?.delete(name)),
    ),
    fence: turns.verb('fence', () => undefined),
    deleteSubject: turns.verb('deleteSubject', (request: CommandHeader) => {
      const last = stop(world, request)
      const name = subjectName(request.subject)
      world.disks.delete(name)
      world.checkpoints.delete(name)
      world.quarantined.delete(name)
      world.trees.delete(name)
      return last
    }),
    makeLayer: turns.verb('makeLayer', (request: LayerRequest) => makeLayer(world, request)),
    setVolumes: turns.verb('setVolumes', (request: VolumesRequest) => setVolumes(world, request)),
    createVolume: turns.verb('createVolume', (request: VolumeRequest) => void world.volumes.add(request.subject.id)),
    deleteVolume: turns.verb('deleteVolume', (request: VolumeHeader) => deleteVolume(world, request.subject.id)),
    keepVolume: turns.verb('keepVolume', (request: KeepVolumeRequest) => keepVolume(world, request)),
    quarantine: turns.verb('quarantine', (request: QuarantineRequest) => quarantine(world, request)),
  }
}

function listening(world: World, turns: VerbQueue, options: FakeOptions): Omit<MachineHost, Verb> {
  return {
    async readDisk({ workspace_id }) {
      if (!turns.reachable) throw silence()
      throw noReader(world, workspace_id)
    },
    async listLayer(layer, after) {
      if (!turns.reachable) throw silence()
      return listLayer(world, layer, after)
    },
    async keepLayers(layers) {
      if (!turns.reachable) throw silence()
      keepLayers(world, layers)
    },
    async layers() {
      if (!turns.reachable) throw silence()
      return layersHere(world)
    },
    async dropLayers(request) {
      if (!turns.reachable) throw silence()
      return dropLayers(world, request)
    },
    async applyTree(request, entries) {
      if (!turns.reachable) throw silence()
      await applyTree(world, request, entries)
    },
    async treeChanges(request) {
      if (!turns.reachable) throw silence()
      return treeChanges(world, request)
    },
    async egressDenials(subject) {
      if (!turns.reachable) throw silence()
      return [...(world.machines.get(subjectName(subject))?.denials ?? [])]
    },
    async claim(installation_id) {
      if (!turns.reachable) throw silence()
      claim(world, installation_id)
    },
    async glance() {
      if (!turns.reachable) throw silence()
      return { ...inventory(world, options), files: [], volumes: [] }
    },
    async inventory() {
      if (!turns.reachable) throw silence()
      return inventory(world, options)
    },
    async stats(subjects) {
      if (!turns.reachable) throw silence()
      const asked = subjects && new Set(subjects.map(subjectName))
      const found = [...world.machines.values()].filter(({ machine }) => asked?.has(subjectName(machine.subject)) ?? true)
      return found.map((one) => stats(world, one))
    },
    async measureVolumes(volume_ids) {
      if (!turns.reachable) throw silence()
      return new Map(volume_ids.filter((id) => world.volumes.has(id)).map((id) => [id, DISK_BYTES]))
    },
    async measureDisks(workspace_ids) {
      if (!turns.reachable) throw silence()
      return measureDisks(world, workspace_ids)
    },
    events: (after, signal) => follow(world, after, signal, () => turns.reachable),
    close: async () => undefined,
  }
}

function breaking(world: World, turns: VerbQueue): Omit<FakeHost, keyof MachineHost> {
  const restart = () => {
    turns.forget()
    world.events = []
    world.boot += 1
    wake(world)
  }
  return {
    guest: (of) => running(world, { subject: subjectOf(of) }).guest,
    volumes: (of) => running(world, { subject: subjectOf(of) }).volumes,
    egressOf: (of) => running(world, { subject: subjectOf(of) }).egress,
    deny: (of, denials) => void (running(world, { subject: subjectOf(of) }).denials = denials),
    breakEgress(of) {
      const { machine } = running(world, { subject: subjectOf(of) })
      machine.egress = { revision: machine.egress?.revision ?? 'default', state: 'failed' }
    },
    kill(of, reason = 'killed') {
      const one = running(world, { subject: subjectOf(of) })
      const { machine } = one
      one.guest.pause()
      const counters = stats(world, one)
      world.machines.delete(subjectName(machine.subject))
      tell(world, machine, reason, counters)
    },
    intercept: (verb, when, hook) => turns.intercept(verb, when, hook),
    setReachable(reachable) {
      turns.reachable = reachable
      wake(world)
    },
    restart,
    reboot() {
      for (const { guest } of world.machines.values()) guest.pause()
      world.machines.clear()
      restart()
    },
    corrupt(checkpoint_id) {
      for (const saved of world.checkpoints.values()) {
        const one = saved.get(checkpoint_id)
        if (one) one.corrupt = true
      }
    },
    refuseMemory(checkpoint_id, why) {
      for (const saved of world.checkpoints.values()) {
        const { [checkpoint_id]: one } = Object.fromEntries(saved)
        if (one && why !== undefined) one.refused = why
        else if (one) delete one.refused
      }
    },
    refuseEngines(engines) {
      world.refused_engines = new Set(engines)
      restart()
    },
    upgrade(engine, before) {
      if (before === 'kept') world.older_engines.push(world.engine)
      world.engine = engine
      restart()
    },
    done: turns.done,
  }
}

function subjectOf(of: string | Subject): Subject {
  return typeof of === 'string' ? workspaceSubject(of) : of
}

function inventory(world: World, options: FakeOptions): Inventory {
  const names = new Set([...world.disks.keys(), ...world.checkpoints.keys(), ...world.machines.keys()])
  return {
    instance: 'fake',
    boot_id: String(world.boot),
    host_boot_id: 'fake',
    engine: world.engine,
    engines: [world.engine, ...world.older_engines],
    last_event: world.events.at(-1)?.seq ?? 0,
    installation: world.installation ?? '',
    highest_fence: Math.max(0, ...world.fences.values()),
    machines: [...world.machines.values()].map(({ machine }) => shown(world, machine)),
    files: [...names].map((name) => ({
      subject: subjectNamed(name),
      fence: world.fences.get(name) ?? 0,
      disks: [...(world.disks.get(name)?.keys() ?? [])],
      checkpoints: [...(world.checkpoints.get(name)?.values() ?? [])].map((saved) => {
        const memory_refused = memoryRefused(world, saved)
        return { ...saved.info, ...(memory_refused === undefined ? {} : { memory_refused, ...missingFor(memory_refused) }) }
      }),
      quarantined: [...(world.quarantined.get(name) ?? [])],
    })),
    volumes: volumesHere(world),
    slots: 1,
    fitted_slots: 0,
    shells: 1,
    capacity: {
      headroom_mib: 0,
      pool_free_bytes: 1e12,
      ...(options.capacity ?? { cpu_millis: 8000, memory_mib: 16_384, disk_gib: 200 }),
      pool_bytes: 1e12,
      reserve_bytes: 1e10,
    },
    resolver: { serving: true, starts: 1 },
  }
}

function shown(world: World, machine: Machine): Machine {
  return world.refused_engines.has(machine.engine) ? { ...machine, engine_refused: true } : { ...machine }
}

function measureDisks(world: World, workspace_ids: string[]): Map<string, number> {
  const isHere = (id: string) => (world.disks.get(id)?.size ?? 0) + (world.checkpoints.get(id)?.size ?? 0) > 0
  return new Map(workspace_ids.filter(isHere).map((id) => [id, DISK_BYTES]))
}

function tell(world: World, machine: Machine, reason: string, counters: MachineCounters): void {
  const { subject, epoch, fence } = machine
  world.events.push({
    seq: (world.events.at(-1)?.seq ?? 0) + 1,
    boot_id: String(world.boot),
    kind: 'died',
    subject,
    epoch,
    fence,
    reason,
    at: world.clock.now().toISOString(),
    counters,
  })
  wake(world)
}

function wake(world: World): void {
  for (const heard of world.heard) heard()
}

async function* follow(world: World, after: number, signal: AbortSignal, reachable: () => boolean): AsyncGenerator<HostEvent> {
  const boot = world.boot
  for (let position = after; ;) {
    if (signal.aborted) return
    if (!reachable() || world.boot !== boot) throw silence()
    const next = world.events.find(({ seq }) => seq > position)
    if (next) {
      position = next.seq
      yield next
    } else await change(world, signal)
  }
}

async function change(world: World, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  world.heard.add(resolve)
  signal.addEventListener('abort', () => resolve(), { once: true })
  await promise
  world.heard.delete(resolve)
}
