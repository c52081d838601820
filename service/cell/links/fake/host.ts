import { systemClock, type Clock } from '../../../lib/clock.ts'
import type {
  CheckpointRequest,
  CloneRequest,
  Fence,
  HostEvent,
  Inventory,
  Machine,
  MachineHost,
  MachineStats,
  RestoreRequest,
  StartRequest,
  StopRequest,
} from '../hostd.ts'
import type { FakeGuest } from './guest.ts'
import { Turns, type Done, type Hook, type Verb, type When } from './turns.ts'
import { checkpoint, clone, noReader, restore, running, setState, silence, start, stop, type World } from './world.ts'

const DISK_BYTES = 2 ** 20

export interface FakeOptions {
  capacity?: { cpu_millis: number; memory_mib: number; disk_gib: number }
  engine?: string
  /** How long every verb takes. */
  latency_ms?: number
  clock?: Clock
}

/** A machine host in memory, with what a test needs to know and to break. */
export interface FakeHost extends MachineHost {
  guest(workspace_id: string): FakeGuest
  /** The machine of the workspace ends by itself. */
  kill(workspace_id: string, reason?: string): void
  /** Runs before (or after) the work of a verb; what it throws is the answer. */
  intercept(verb: Verb, when: When, hook: Hook): Disposable
  /** Nobody answers, as when hostd is down; machines go on. */
  setReachable(reachable: boolean): void
  /** hostd starts again: what it remembered of finished steps is gone, machines are not. */
  restart(): void
  /** The computer starts again: no machine is left. */
  reboot(): void
  corrupt(checkpoint_id: string): void
  /** hostd starts again with another engine. The one before is kept, unless it is lost. */
  upgrade(engine: string, before: 'kept' | 'lost'): void
  /** Verbs that were carried out, in order. */
  readonly done: readonly Done[]
}

export function createFakeHost(options: FakeOptions = {}): FakeHost {
  const world: World = {
    clock: options.clock ?? systemClock,
    engine: options.engine ?? 'fake-1',
    older_engines: [],
    boot: 1,
    machines: new Map(),
    disks: new Map(),
    checkpoints: new Map(),
    fences: new Map(),
    events: [],
    heard: new Set(),
  }
  const turns = new Turns(world, options.latency_ms ?? 0)
  return { ...machineVerbs(world, turns), ...listening(world, turns, options), ...breaking(world, turns) }
}

function machineVerbs(world: World, turns: Turns): Pick<MachineHost, Verb> {
  return {
    start: turns.verb('start', (request: StartRequest) => start(world, request)),
    restore: turns.verb('restore', (request: RestoreRequest) => restore(world, request)),
    connect: turns.verb('connect', (request: Fence) => void (running(world, request).machine.connected = true)),
    checkpoint: turns.verb('checkpoint', (request: CheckpointRequest) => checkpoint(world, request)),
    unpause: turns.verb('unpause', (request: Fence) => setState(running(world, request), 'running')),
    freeze: turns.verb('freeze', (request: Fence) => setState(running(world, request), 'frozen')),
    thaw: turns.verb('thaw', (request: Fence) => setState(running(world, request), 'running')),
    stop: turns.verb('stop', (request: StopRequest) => stop(world, request)),
    cloneCheckpoint: turns.verb('cloneCheckpoint', (request: CloneRequest) => clone(world, request)),
    deleteCheckpoints: turns.verb('deleteCheckpoints', (request) =>
      request.names.forEach((name) => world.checkpoints.get(request.workspace_id)?.delete(name)),
    ),
    deleteDisks: turns.verb('deleteDisks', (request) =>
      request.names.forEach((name) => world.disks.get(request.workspace_id)?.delete(name)),
    ),
    fence: turns.verb('fence', () => undefined),
    deleteWorkspace: turns.verb('deleteWorkspace', (request: Fence) => {
      stop(world, request)
      world.disks.delete(request.workspace_id)
      world.checkpoints.delete(request.workspace_id)
    }),
  }
}

function listening(
  world: World,
  turns: Turns,
  options: FakeOptions,
): Pick<MachineHost, 'inventory' | 'stats' | 'measureDisks' | 'readDisk' | 'events' | 'close'> {
  return {
    async readDisk({ workspace_id }) {
      if (!turns.reachable) throw silence()
      throw noReader(world, workspace_id)
    },
    async inventory() {
      if (!turns.reachable) throw silence()
      return inventory(world, options)
    },
    async stats() {
      if (!turns.reachable) throw silence()
      return [...world.machines.values()].map(stats)
    },
    async measureDisks(workspace_ids) {
      if (!turns.reachable) throw silence()
      return measureDisks(world, workspace_ids)
    },
    events: (after, signal) => follow(world, after, signal, () => turns.reachable),
    close: async () => undefined,
  }
}

function breaking(world: World, turns: Turns): Omit<FakeHost, keyof MachineHost> {
  const restart = () => {
    turns.forget()
    world.events = []
    world.boot += 1
    wake(world)
  }
  return {
    guest: (workspace_id) => running(world, { workspace_id }).guest,
    kill(workspace_id, reason = 'killed') {
      const { machine, guest } = running(world, { workspace_id })
      guest.pause()
      world.machines.delete(workspace_id)
      tell(world, machine, reason)
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
    upgrade(engine, before) {
      if (before === 'kept') world.older_engines.push(world.engine)
      world.engine = engine
      restart()
    },
    done: turns.done,
  }
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
    machines: [...world.machines.values()].map(({ machine }) => ({ ...machine })),
    workspaces: [...names].map((workspace_id) => ({
      workspace_id,
      fence: world.fences.get(workspace_id) ?? 0,
      disks: [...(world.disks.get(workspace_id)?.keys() ?? [])],
      checkpoints: [...(world.checkpoints.get(workspace_id)?.values() ?? [])].map(({ info }) => info),
    })),
    slots: 1,
    fitted_slots: 0,
    shells: 1,
    capacity: {
      ...(options.capacity ?? { cpu_millis: 8000, memory_mib: 16_384, disk_gib: 200 }),
      pool_bytes: 1e12,
      pool_free_bytes: 1e12,
      reserve_bytes: 1e10,
    },
  }
}

/** Every disk is of one size. */
function measureDisks(world: World, workspace_ids: string[]): Map<string, number> {
  const isHere = (id: string) => (world.disks.get(id)?.size ?? 0) + (world.checkpoints.get(id)?.size ?? 0) > 0
  return new Map(workspace_ids.filter(isHere).map((id) => [id, DISK_BYTES]))
}

/** A fake guest uses a whole processor while it works, and sends a byte for each millisecond of it. */
function stats({ machine, guest }: { machine: Machine; guest: FakeGuest }): MachineStats {
  const { workspace_id, epoch, fence, resources } = machine
  const ran_ms = Math.round(guest.worked())
  return {
    workspace_id,
    epoch,
    fence,
    cpu_usec: ran_ms * 1000,
    memory_bytes: resources.memory_mib * 2 ** 20,
    disk_bytes: DISK_BYTES,
    rx_bytes: 0,
    tx_bytes: ran_ms,
  }
}

function tell(world: World, machine: Machine, reason: string): void {
  const { workspace_id, epoch, fence } = machine
  world.events.push({
    seq: (world.events.at(-1)?.seq ?? 0) + 1,
    boot_id: String(world.boot),
    kind: 'died',
    workspace_id,
    epoch,
    fence,
    reason,
    at: world.clock.now().toISOString(),
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
