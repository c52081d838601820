import { randomBytes } from 'node:crypto'
import {
  HostFailure,
  type CheckpointInfo,
  type CheckpointRequest,
  type CloneRequest,
  type Fence,
  type HostEvent,
  type Inventory,
  type Machine,
  type MachineHost,
  type RestoreRequest,
  type StartRequest,
  type StopRequest,
} from '../hostd.ts'
import { systemClock, type Clock } from '../../../lib/clock.ts'
import { FakeGuest } from './guest.ts'

export type Verb = Exclude<keyof MachineHost, 'inventory' | 'events' | 'close'>

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
  intercept(verb: Verb, when: 'before' | 'after', hook: (request: Fence) => Promise<void> | void): Disposable
  /** Nobody answers, as when hostd is down; machines go on. */
  setReachable(reachable: boolean): void
  /** hostd starts again: what it remembered of finished steps is gone, machines are not. */
  restart(): void
  /** The computer starts again: no machine is left. */
  reboot(): void
  corrupt(checkpoint_id: string): void
  /** Verbs that were carried out, in order. */
  readonly done: { verb: Verb; workspace_id: string; step: string }[]
}

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

interface World {
  clock: Clock
  engine: string
  boot: number
  machines: Map<string, Running>
  disks: Map<string, Map<string, Map<string, string>>>
  checkpoints: Map<string, Map<string, Saved>>
  fences: Map<string, number>
  events: HostEvent[]
  heard: Set<() => void>
}

export function createFakeHost(options: FakeOptions = {}): FakeHost {
  const world: World = {
    clock: options.clock ?? systemClock,
    engine: options.engine ?? 'fake-1',
    boot: 1,
    machines: new Map(),
    disks: new Map(),
    checkpoints: new Map(),
    fences: new Map(),
    events: [],
    heard: new Set(),
  }
  const remembered = new Map<string, Promise<unknown>>()
  const tails = new Map<string, Promise<unknown>>()
  const hooks: { verb: Verb; when: 'before' | 'after'; hook: (request: Fence) => Promise<void> | void }[] = []
  const done: FakeHost['done'] = []
  let reachable = true

  const runHooks = async (verb: Verb, when: 'before' | 'after', request: Fence) => {
    for (const one of [...hooks]) if (one.verb === verb && one.when === when) await one.hook(request)
  }
  const respond = async <T>(answer: Promise<T>): Promise<T> => {
    const value = await answer
    if (!reachable) throw silence()
    return value
  }
  const verb = <Q extends Fence, A>(name: Verb, work: (request: Q) => A) => {
    return async (request: Q): Promise<A> => {
      if (!reachable) throw silence()
      raiseFence(world, request.workspace_id, request.fence)
      const key = `${request.workspace_id} ${request.fence} ${name} ${request.step}`
      const known = remembered.get(key)
      if (known) return respond(known as Promise<A>)
      const run = async () => {
        await runHooks(name, 'before', request)
        if (options.latency_ms !== undefined) await new Promise((resolve) => setTimeout(resolve, options.latency_ms))
        // What waited its turn behind a higher fence is too late.
        if (name !== 'fence') refuseLower(world, request.workspace_id, request.fence)
        done.push({ verb: name, workspace_id: request.workspace_id, step: request.step })
        return work(request)
      }
      const answer = (tails.get(request.workspace_id) ?? Promise.resolve()).then(run)
      tails.set(
        request.workspace_id,
        answer.catch(() => undefined),
      )
      remembered.set(key, answer)
      const value = await respond(answer)
      await runHooks(name, 'after', request)
      return value
    }
  }
  const end = () => {
    for (const { guest } of world.machines.values()) guest.pause()
    world.machines.clear()
    world.events = []
    world.boot += 1
    remembered.clear()
    wake(world)
  }
  return {
    start: verb('start', (request: StartRequest) => start(world, request)),
    restore: verb('restore', (request: RestoreRequest) => restore(world, request)),
    connect: verb('connect', (request: Fence) => void (running(world, request).machine.connected = true)),
    checkpoint: verb('checkpoint', (request: CheckpointRequest) => checkpoint(world, request)),
    unpause: verb('unpause', (request: Fence) => setState(running(world, request), 'running')),
    freeze: verb('freeze', (request: Fence) => setState(running(world, request), 'frozen')),
    thaw: verb('thaw', (request: Fence) => setState(running(world, request), 'running')),
    stop: verb('stop', (request: StopRequest) => stop(world, request)),
    cloneCheckpoint: verb('cloneCheckpoint', (request: CloneRequest) => clone(world, request)),
    deleteCheckpoints: verb('deleteCheckpoints', (request) =>
      request.names.forEach((name) => world.checkpoints.get(request.workspace_id)?.delete(name)),
    ),
    deleteDisks: verb('deleteDisks', (request) => request.names.forEach((name) => world.disks.get(request.workspace_id)?.delete(name))),
    fence: verb('fence', () => undefined),
    deleteWorkspace: verb('deleteWorkspace', (request: Fence) => {
      stop(world, request)
      world.disks.delete(request.workspace_id)
      world.checkpoints.delete(request.workspace_id)
    }),
    async inventory() {
      if (!reachable) throw silence()
      return inventory(world, options)
    },
    events: (after, signal) => follow(world, after, signal, () => reachable),
    close: async () => undefined,

    guest: (workspace_id) => running(world, { workspace_id }).guest,
    kill(workspace_id, reason = 'killed') {
      const { machine, guest } = running(world, { workspace_id })
      guest.pause()
      world.machines.delete(workspace_id)
      tell(world, machine, reason)
    },
    intercept(name, when, hook) {
      const entry = { verb: name, when, hook }
      hooks.push(entry)
      return { [Symbol.dispose]: () => void hooks.splice(hooks.indexOf(entry), 1) }
    },
    setReachable(value) {
      reachable = value
      wake(world)
    },
    restart() {
      remembered.clear()
      world.events = []
      world.boot += 1
      wake(world)
    },
    reboot: end,
    corrupt(checkpoint_id) {
      for (const saved of world.checkpoints.values()) {
        const one = saved.get(checkpoint_id)
        if (one) one.corrupt = true
      }
    },
    done,
  }
}

function silence(): HostFailure {
  return new HostFailure('unreachable', 'The fake host is unreachable', { retryable: true })
}

function refusal(code: ConstructorParameters<typeof HostFailure>[0], message: string): HostFailure {
  return new HostFailure(code, message, { retryable: false })
}

function refuseLower(world: World, workspace_id: string, fence: number): void {
  const highest = world.fences.get(workspace_id) ?? 0
  if (fence < highest) throw refusal('fenced', `Fence ${fence} is below ${highest}`)
}

function raiseFence(world: World, workspace_id: string, fence: number): void {
  refuseLower(world, workspace_id, fence)
  world.fences.set(workspace_id, fence)
}

function running(world: World, request: { workspace_id: string; epoch?: number }): Running {
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
    connected: false,
    resources,
  }
  world.machines.set(workspace_id, { machine, guest: new FakeGuest({ ...state, files }) })
  return { ...machine }
}

function start(world: World, request: StartRequest): Machine {
  if (request.from_disk === undefined) return boot(world, request, { memory: new Map(), files: new Map(), ran_ms: 0 })
  const files = world.disks.get(request.workspace_id)?.get(request.from_disk)
  if (!files) throw refusal('not_found', 'There is no such disk')
  return boot(world, request, { memory: new Map(), files, ran_ms: 0 })
}

function restore(world: World, request: RestoreRequest): Machine {
  const saved = world.checkpoints.get(request.workspace_id)?.get(request.checkpoint_id)
  if (!saved) throw refusal('not_found', 'There is no such checkpoint')
  if (saved.corrupt) throw refusal('checkpoint_corrupt', 'The checkpoint is damaged')
  if (saved.info.engine !== world.engine) throw refusal('checkpoint_incompatible', 'The checkpoint is of another engine')
  return boot(world, request, saved)
}

function setState({ machine, guest }: Running, state: Machine['state']): void {
  machine.state = state
  if (state === 'running') guest.unpause()
  else guest.pause()
}

function checkpoint(world: World, request: CheckpointRequest): CheckpointInfo {
  const found = running(world, request)
  const owner = request.into_workspace_id ?? request.workspace_id
  if (request.into_workspace_id !== undefined) raiseFence(world, owner, request.into_fence ?? 0)
  setState(found, 'paused')
  const info: CheckpointInfo = {
    checkpoint_id: request.checkpoint_id,
    workspace_id: owner,
    epoch: found.machine.epoch,
    engine: world.engine,
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
    memory: new Map(memory),
    files: new Map(files),
    ran_ms: found.guest.count(),
    corrupt: false,
  })
  if (request.then === 'running') setState(found, 'running')
  return info
}

function clone(world: World, request: CloneRequest): CheckpointInfo {
  const saved = world.checkpoints.get(request.source_workspace_id)?.get(request.source_checkpoint_id)
  if (!saved) throw refusal('not_found', 'There is no such checkpoint')
  const info = { ...saved.info, checkpoint_id: request.checkpoint_id, workspace_id: request.workspace_id }
  inner(world.checkpoints, request.workspace_id).set(request.checkpoint_id, {
    ...saved,
    info,
    files: new Map(saved.files),
    memory: new Map(saved.memory),
  })
  return info
}

function stop(world: World, request: StopRequest): void {
  const found = world.machines.get(request.workspace_id)
  if (!found || ((request.machine_epoch ?? 0) !== 0 && found.machine.epoch !== request.machine_epoch)) return
  found.guest.pause()
  world.machines.delete(request.workspace_id)
}

function inventory(world: World, options: FakeOptions): Inventory {
  const names = new Set([...world.disks.keys(), ...world.checkpoints.keys(), ...world.machines.keys()])
  return {
    instance: 'fake',
    boot_id: String(world.boot),
    host_boot_id: 'fake',
    engine: world.engine,
    last_event: world.events.at(-1)?.seq ?? 0,
    machines: [...world.machines.values()].map(({ machine }) => ({ ...machine })),
    workspaces: [...names].map((workspace_id) => ({
      workspace_id,
      fence: world.fences.get(workspace_id) ?? 0,
      disks: [...(world.disks.get(workspace_id)?.keys() ?? [])],
      checkpoints: [...(world.checkpoints.get(workspace_id)?.values() ?? [])].map(({ info }) => info),
    })),
    slots: 1,
    shells: 1,
    capacity: {
      ...(options.capacity ?? { cpu_millis: 8000, memory_mib: 16_384, disk_gib: 200 }),
      pool_bytes: 1e12,
      pool_free_bytes: 1e12,
      reserve_bytes: 1e10,
    },
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
