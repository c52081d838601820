import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, suite, test } from 'node:test'
import type { HostEvent, Machine } from '../../contract/internal/host-inventory.ts'
import type { CommandHeader, Subject } from '../../contract/internal/host-subject.ts'
import { HostFailure, type MachineHost } from '../../service/cell/host/hostd.ts'
import { until } from '../support/processes.ts'
import { disks } from './disk-conformance.ts'
import { egress } from './egress-conformance.ts'
import { kinds } from './kinds-conformance.ts'
import { layers } from './layers-conformance.ts'
import { keeping } from './keeping-conformance.ts'
import { trees } from './trees-conformance.ts'
import { volumes } from './volumes-conformance.ts'
import { workspaceSubject } from '../../service/cell/host/subject.ts'

export interface Guest {
  count(): Promise<number>
  readFile(path: string): Promise<string | null>
  writeFile(path: string, text: string): Promise<void>
  /** A start from a disk loses the memory; a restore keeps it. */
  readMemory(): Promise<string | null>
  writeMemory(text: string): Promise<void>
}

export interface Harness {
  host: MachineHost
  layers: string[]
  guest(machine: Machine): Promise<Guest>
  kill(machine: Machine): Promise<void>
  close(): Promise<void>
}

const PATIENCE_MS = 60_000
const RESOURCES = { cpu_millis: 1000, memory_mib: 256, disk_gib: 1 }
const NO_CHECKPOINT = '00000000-0000-7000-8000-000000000000'

export function conformance(name: string, open: () => Promise<Harness>): void {
  void suite(`machine host: ${name}`, () => {
    let harness: Harness
    let host: MachineHost
    let fence = 0
    before(async () => {
      harness = await open()
      host = harness.host
    })
    after(() => harness.close())

    const speak = (of: string | Subject, epoch: number, step = 'step'): CommandHeader => {
      fence += 1
      return { subject: typeof of === 'string' ? workspaceSubject(of) : of, operation_id: randomUUID(), step, epoch, fence }
    }
    const startRequest = (speaker: CommandHeader, from_disk?: string) => ({
      ...speaker,
      resources: RESOURCES,
      hostname: 'box',
      layers: harness.layers,
      ...(from_disk === undefined ? {} : { from_disk }),
    })
    const start = (workspace_id: string, epoch = 1, from_disk?: string) => host.start(startRequest(speak(workspace_id, epoch), from_disk))
    const restore = (workspace_id: string, epoch: number, checkpoint_id: string, renew_identity = false) =>
      host.restore({ ...speak(workspace_id, epoch), resources: RESOURCES, hostname: 'box', checkpoint_id, renew_identity })
    const checkpoint = (machine: Machine, then: 'paused' | 'running') =>
      host.checkpoint({ ...speak(machine.subject.id, machine.epoch), checkpoint_id: randomUUID(), then })
    const capture = (machine: Machine, target: string) => {
      const into = { into: workspaceSubject(target), into_fence: fence + 1, then: 'running' as const }
      return host.checkpoint({ ...speak(machine.subject.id, machine.epoch), checkpoint_id: randomUUID(), ...into })
    }
    const remove = async (...workspace_ids: string[]) => {
      for (const id of workspace_ids) await host.deleteSubject(speak(id, 1))
    }
    const machineOf = async (workspace_id: string) => (await host.inventory()).machines.find((one) => one.subject.id === workspace_id)
    const filesOf = async (workspace_id: string) => (await host.inventory()).files.find((one) => one.subject.id === workspace_id)
    const refused = (code: HostFailure['code']) => (error: unknown) => error instanceof HostFailure && error.code === code

    test('a blank start runs on a disk of its own, without a network until it is connected', async () => {
      const id = randomUUID()
      const machine = await start(id)
      assert.deepEqual(
        [machine.subject.id, machine.epoch, machine.state, machine.connected, machine.resources],
        [id, 1, 'running', false, RESOURCES],
      )
      await host.connect(speak(id, 1))
      assert.deepEqual([(await machineOf(id))?.connected, (await filesOf(id))?.disks], [true, [machine.disk]])
      const guest = await harness.guest(machine)
      await guest.writeFile('/home/kept', 'text')
      assert.equal(await guest.readFile('/home/kept'), 'text')
      await remove(id)
    })

    test('a start with connect is connected when its answer arrives', async () => {
      const id = randomUUID()
      const request = { ...startRequest(speak(id, 1)), connect: true }
      const machine = await host.start(request)
      assert.deepEqual([machine.connected, (await machineOf(id))?.connected, (await host.start(request)).connected], [true, true, true])
      await remove(id)
    })

    test('a start from a disk has its files and none of the memory, on a disk of its own', async () => {
      const id = randomUUID()
      const first = await start(id)
      const guest = await harness.guest(first)
      await guest.writeFile('/home/kept', 'text')
      await guest.writeMemory('gone')
      await host.stop(speak(id, 1))
      const second = await start(id, 2, first.disk)
      assert.notEqual(second.disk, first.disk)
      const again = await harness.guest(second)
      assert.deepEqual([await again.readFile('/home/kept'), await again.readMemory()], ['text', null])
      await host.deleteDisks({ ...speak(id, 2), names: [first.disk] })
      assert.deepEqual((await filesOf(id))?.disks, [second.disk])
      await remove(id)
    })

    test('every verb refuses a lower fence', async () => {
      const id = randomUUID()
      const old = speak(id, 1)
      await host.fence(speak(id, 1))
      const checkpoint_id = randomUUID()
      const verbs: (() => Promise<unknown>)[] = [
        () => host.start(startRequest(old)),
        () => host.restore({ ...old, resources: RESOURCES, hostname: 'box', checkpoint_id }),
        () => host.connect(old),
        () => host.checkpoint({ ...old, checkpoint_id, then: 'paused' }),
        () => host.unpause(old),
        () => host.stop(old),
        () => host.freeze(old),
        () => host.thaw(old),
        () => host.cloneCheckpoint({ ...old, source: workspaceSubject(randomUUID()), source_checkpoint_id: checkpoint_id, checkpoint_id }),
        () => host.deleteCheckpoints({ ...old, names: [checkpoint_id] }),
        () => host.deleteDisks({ ...old, names: ['e1.1'] }),
        () => host.fence(old),
        () => host.deleteSubject(old),
      ]
      for (const verb of verbs) await assert.rejects(verb, refused('fenced'))
      assert.equal(await machineOf(id), undefined)
    })

    test('a repeated step is done once', async () => {
      const id = randomUUID()
      const request = startRequest(speak(id, 1))
      const [one, other] = await Promise.all([host.start(request), host.start(request)])
      const later = await host.start(request)
      assert.deepEqual([other, later], [one, one])
      assert.equal((await host.inventory()).machines.filter(({ subject }) => subject.id === id).length, 1)
      await remove(id)
    })

    test('a workspace has one machine', async () => {
      const id = randomUUID()
      const machine = await start(id)
      await assert.rejects(start(id, 2, machine.disk), refused('already_running'))
      assert.equal((await machineOf(id))?.epoch, 1)
      await remove(id)
    })

    test('after a checkpoint the guest stands still until it is unpaused', async () => {
      const id = randomUUID()
      const machine = await start(id)
      const guest = await harness.guest(machine)
      await checkpoint(machine, 'paused')
      assert.equal((await machineOf(id))?.state, 'paused')
      await host.unpause(speak(id, 1))
      const before_count = await guest.count()
      await until('it counts on', PATIENCE_MS, async () => (await guest.count()) > before_count)
      assert.equal((await machineOf(id))?.state, 'running')
      await remove(id)
    })

    test('a restore continues memory, disk and counter from the capture', async () => {
      const id = randomUUID()
      const machine = await start(id)
      const guest = await harness.guest(machine)
      await guest.writeFile('/home/kept', 'text')
      await guest.writeMemory('canary')
      const before_count = await guest.count()
      const info = await checkpoint(machine, 'paused')
      assert.deepEqual([info.subject.id, info.epoch, info.engine], [id, 1, (await host.inventory()).engine])
      await host.stop({ ...speak(id, 2), machine_epoch: 1 })
      const restored = await restore(id, 3, info.checkpoint_id)
      assert.deepEqual([restored.epoch, restored.connected, restored.disk === machine.disk], [3, false, false])
      const again = await harness.guest(restored)
      assert.deepEqual([await again.readFile('/home/kept'), await again.readMemory()], ['text', 'canary'])
      assert.ok((await again.count()) >= before_count)
      await host.stop(speak(id, 3))
      const twice = await harness.guest(await restore(id, 4, info.checkpoint_id))
      assert.equal(await twice.readMemory(), 'canary')
      await remove(id)
    })

    test('a capture into another workspace lets the source run on, and the two share nothing', async () => {
      const [source, target] = [randomUUID(), randomUUID()]
      const machine = await start(source)
      const guest = await harness.guest(machine)
      await guest.writeFile('/home/kept', 'of both')
      await guest.writeMemory('of both')
      const info = await capture(machine, target)
      assert.equal(info.subject.id, target)
      const copy = await harness.guest(await restore(target, 1, info.checkpoint_id, true))
      await copy.writeFile('/home/kept', 'of the copy')
      await copy.writeMemory('of the copy')
      assert.deepEqual([await guest.readFile('/home/kept'), await guest.readMemory()], ['of both', 'of both'])
      const before_count = await guest.count()
      await until('it counts on', PATIENCE_MS, async () => (await guest.count()) > before_count)
      await remove(source)
      assert.equal(await copy.readFile('/home/kept'), 'of the copy')
      await remove(target)
    })

    test('a clone of a checkpoint outlives its source', async () => {
      const [source, target] = [randomUUID(), randomUUID()]
      const machine = await start(source)
      await (await harness.guest(machine)).writeMemory('canary')
      const info = await checkpoint(machine, 'paused')
      await host.stop(speak(source, 2))
      const checkpoint_id = randomUUID()
      const names = { source: workspaceSubject(source), source_checkpoint_id: info.checkpoint_id, checkpoint_id }
      const clone = await host.cloneCheckpoint({ ...speak(target, 1), ...names })
      assert.deepEqual([clone.subject.id, clone.checkpoint_id], [target, checkpoint_id])
      await remove(source)
      const copy = await harness.guest(await restore(target, 1, checkpoint_id, true))
      assert.equal(await copy.readMemory(), 'canary')
      await remove(target)
    })

    test("a machine is restored from another subject's checkpoint, which may be deleted afterwards", async () => {
      const [source, targets]: [Subject, string[]] = [{ kind: 'build', id: randomUUID() }, [randomUUID(), randomUUID()]]
      const guest = await harness.guest(await host.start(startRequest(speak(source, 1))))
      await guest.writeFile('/home/kept', 'of the source')
      await guest.writeMemory('canary')
      const { checkpoint_id } = await host.checkpoint({ ...speak(source, 1), checkpoint_id: randomUUID(), then: 'paused' })
      await host.stop(speak(source, 1))
      const asked = { resources: RESOURCES, hostname: 'box', checkpoint_id, of: source }
      const restoreAs = (id: string) => host.restore({ ...speak(id, 1), ...asked, renew_identity: true })
      await assert.rejects(host.restore({ ...speak(targets[0] ?? '', 1), ...asked }), refused('bad_request'))
      const copies = await Promise.all(targets.map(async (id) => harness.guest(await restoreAs(id))))
      await host.deleteSubject(speak(source, 1))
      for (const copy of copies) assert.deepEqual([await copy.readMemory(), await copy.readFile('/home/kept')], ['canary', 'of the source'])
      await copies[0]?.writeMemory('of the copy')
      assert.equal(await copies[1]?.readMemory(), 'canary')
      await assert.rejects(restoreAs(randomUUID()), refused('not_found'))
      await remove(...targets)
    })

    test('a stop for another epoch stops nothing, and a second stop is no error', async () => {
      const id = randomUUID()
      await start(id, 2)
      await host.stop({ ...speak(id, 2), machine_epoch: 1 })
      assert.equal((await machineOf(id))?.epoch, 2)
      await host.stop(speak(id, 2))
      await host.stop(speak(id, 2))
      assert.equal(await machineOf(id), undefined)
      await remove(id)
    })

    test('a missing checkpoint, disk or machine is refused by its own code', async () => {
      const id = randomUUID()
      await assert.rejects(restore(id, 1, NO_CHECKPOINT), refused('not_found'))
      await assert.rejects(start(id, 1, 'e9.9'), refused('not_found'))
      await assert.rejects(host.unpause(speak(id, 1)), refused('not_running'))
      await assert.rejects(host.connect(speak(id, 1)), refused('not_running'))
      await assert.rejects(host.checkpoint({ ...speak(id, 1), checkpoint_id: randomUUID(), then: 'paused' }), refused('not_running'))
      await remove(id)
    })

    test("a verb for another epoch than the machine's is refused", async () => {
      const id = randomUUID()
      const machine = await start(id, 3)
      await assert.rejects(host.checkpoint({ ...speak(id, 2), checkpoint_id: randomUUID(), then: 'paused' }), refused('not_running'))
      await assert.rejects(host.connect(speak(id, 4)), refused('not_running'))
      assert.equal((await machineOf(id))?.disk, machine.disk)
      await remove(id)
    })

    test('the inventory names the existing files, and none that were deleted', async () => {
      const id = randomUUID()
      const machine = await start(id)
      const info = await checkpoint(machine, 'running')
      const files = await filesOf(id)
      assert.deepEqual([files?.disks, files?.checkpoints.map(({ checkpoint_id }) => checkpoint_id)], [[machine.disk], [info.checkpoint_id]])
      await host.deleteCheckpoints({ ...speak(id, 1), names: [info.checkpoint_id] })
      assert.deepEqual((await filesOf(id))?.checkpoints, [])
      await host.deleteSubject(speak(id, 1))
      assert.deepEqual([await machineOf(id), (await filesOf(id))?.disks ?? []], [undefined, []])
      await host.deleteSubject(speak(id, 1))
    })

    test('counters name their machine and only grow', async () => {
      const id = randomUUID()
      const { fence, epoch } = await start(id)
      const read = async () => (await host.stats()).find(({ subject }) => subject.id === id)
      const first = await read()
      assert.deepEqual([first?.epoch, first?.fence], [epoch, fence])
      assert.ok(first && first.memory_bytes > 0 && first.disk_bytes >= 0) // a disk's quota counts committed writes
      await until('it uses the processor', PATIENCE_MS, async () => ((await read())?.cpu_usec ?? 0) > first.cpu_usec)
      await remove(id)
      assert.equal(await read(), undefined)
    })

    test('the disk of a workspace is measured with a machine and without, and not where it has none', async () => {
      const id = randomUUID()
      const machine = await start(id)
      const measure = async () => [...(await host.measureDisks([id, randomUUID()]))]
      const [[of, awake] = []] = await measure()
      assert.ok(of === id && awake !== undefined && awake >= 0)
      await checkpoint(machine, 'paused')
      await host.stop(speak(id, 1))
      const [[, asleep] = []] = await measure()
      assert.ok(asleep !== undefined && asleep > 0 && asleep >= awake, `${awake}, then ${asleep}`)
      await remove(id)
      assert.deepEqual(await measure(), [])
    })

    test('a deleted workspace stays fenced', async () => {
      const id = randomUUID()
      const late = startRequest(speak(id, 1))
      await remove(id)
      await assert.rejects(host.start(late), refused('fenced'))
    })

    test('a frozen machine stands still, and a thaw lets it run on', async () => {
      const id = randomUUID()
      const machine = await start(id)
      const guest = await harness.guest(machine)
      await host.freeze(speak(id, 1))
      assert.equal((await machineOf(id))?.state, 'frozen')
      await host.thaw(speak(id, 1))
      const before_count = await guest.count()
      await until('it counts on', PATIENCE_MS, async () => (await guest.count()) > before_count)
      await remove(id)
    })

    test('a death is reported with its machine, and the disk stays', async () => {
      const id = randomUUID()
      const machine = await start(id)
      await (await harness.guest(machine)).writeFile('/home/kept', 'text')
      const { last_event, boot_id } = await host.inventory()
      const controller = new AbortController()
      const told = firstOf(host.events(last_event, controller.signal), id)
      await harness.kill(machine)
      const event = await told
      controller.abort()
      assert.deepEqual([event.kind, event.epoch, event.fence, event.boot_id], ['died', 1, machine.fence, boot_id])
      assert.deepEqual([event.counters?.subject, event.counters?.fence], [machine.subject, machine.fence])
      assert.equal(await machineOf(id), undefined)
      // A reader that begins later from this position also gets the event.
      const late = new AbortController()
      assert.equal((await firstOf(host.events(last_event, late.signal), id)).seq, event.seq)
      late.abort()
      const again = await harness.guest(await start(id, 2, machine.disk))
      assert.equal(await again.readFile('/home/kept'), 'text')
      await remove(id)
    })

    disks({
      host: () => host,
      guest: (machine) => harness.guest(machine),
      start,
      startRequest,
      speak,
      restore,
      checkpoint,
      remove,
      refused,
    })
    kinds({ host: () => host, speak, startRequest, refused })
    layers({ host: () => host, guest: (machine) => harness.guest(machine), speak, startRequest, refused })
    egress({ host: () => host, start, speak, startRequest, remove, refused })
    volumes({ host: () => host, start, speak, startRequest, remove, refused })

    trees({ host: () => host, speak, startRequest, guest: (machine) => harness.guest(machine), refused })
    // Last, because the host then refuses callers without the installation's id.
    keeping({ host: () => host, start, speak, remove, filesOf, refused, fence: () => fence })
  })
}

async function firstOf(events: AsyncIterable<HostEvent>, workspace_id: string): Promise<HostEvent> {
  for await (const event of events) if (event.subject.id === workspace_id) return event
  throw new Error('The events ended')
}
