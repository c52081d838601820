import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { CheckpointInfo, CommandHeader, HostFailure, Machine, MachineHost, StartRequest } from '../../service/cell/host/hostd.ts'
import { until } from '../support/processes.ts'
import type { Guest } from './conformance.ts'
import { workspaceSubject } from '../../service/cell/host/subject.ts'

const PATIENCE_MS = 60_000

interface Suite {
  host(): MachineHost
  guest(machine: Machine): Promise<Guest>
  start(workspace_id: string): Promise<Machine>
  startRequest(speaker: CommandHeader): StartRequest
  speak(workspace_id: string, epoch: number): CommandHeader
  restore(workspace_id: string, epoch: number, checkpoint_id: string): Promise<Machine>
  checkpoint(machine: Machine, then: 'paused'): Promise<CheckpointInfo>
  remove(...workspace_ids: string[]): Promise<void>
  refused(code: HostFailure['code']): (error: unknown) => boolean
}

export function disks({ host, guest: guestOf, start, startRequest, speak, restore, checkpoint, remove, refused }: Suite): void {
  test('a layer holds the disk alone: another workspace starts from it, and a restore of it boots', async () => {
    const [source, target] = [randomUUID(), randomUUID()]
    const machine = await start(source)
    const guest = await guestOf(machine)
    await guest.writeFile('/home/kept', 'text')
    await guest.writeMemory('gone')
    const checkpoint_id = randomUUID()
    const info = await host().checkpoint({ ...speak(source, 1), checkpoint_id, then: 'running', disk_only: true })
    assert.deepEqual([info.disk_only, info.engine], [true, ''])
    await guest.writeFile('/home/kept', 'later')
    const copy = await guestOf(
      await host().start({ ...startRequest(speak(target, 1)), from_layer: { subject: workspaceSubject(source), checkpoint_id } }),
    )
    assert.deepEqual([await copy.readFile('/home/kept'), await copy.readMemory()], ['text', null])
    const before_count = await guest.count()
    await until('it counts on', PATIENCE_MS, async () => (await guest.count()) > before_count)
    await host().stop(speak(source, 1))
    const booted = await guestOf(await restore(source, 2, checkpoint_id))
    assert.deepEqual([await booted.readFile('/home/kept'), await booted.readMemory()], ['text', null])
    await remove(source, target)
  })

  test('the disk of an ended machine is captured alone and restored, and that of a running one is refused', async () => {
    const id = randomUUID()
    const machine = await start(id)
    const guest = await guestOf(machine)
    await guest.writeFile('/home/kept', 'text')
    await guest.writeMemory('gone')
    const { layers, resources } = startRequest(speak(id, 1))
    const checkpoint_id = randomUUID()
    const capture = (from_disk: string) =>
      host().checkpoint({ ...speak(id, 1), checkpoint_id, then: 'running', disk_only: true, from_disk, layers, resources })
    await assert.rejects(capture(machine.disk), refused('already_running'))
    await host().stop(speak(id, 1))
    await assert.rejects(capture('e9.9'), refused('not_found'))
    const info = await capture(machine.disk)
    assert.deepEqual([info.disk_only, info.engine, info.size_bytes, info.resources], [true, '', 0, resources])
    assert.ok(info.disk_bytes !== null && info.disk_bytes > 0)
    await host().deleteDisks({ ...speak(id, 1), names: [machine.disk] })
    const restored = await guestOf(await restore(id, 2, checkpoint_id))
    assert.deepEqual([await restored.readFile('/home/kept'), await restored.readMemory()], ['text', null])
    await remove(id)
  })

  test('a clone of a checkpoint without its memory is a layer', async () => {
    const [source, target] = [randomUUID(), randomUUID()]
    const machine = await start(source)
    const guest = await guestOf(machine)
    await guest.writeFile('/home/kept', 'text')
    await guest.writeMemory('gone')
    const { checkpoint_id: source_checkpoint_id } = await checkpoint(machine, 'paused')
    await host().stop(speak(source, 2))
    const checkpoint_id = randomUUID()
    const names = { source: workspaceSubject(source), source_checkpoint_id, checkpoint_id, disk_only: true }
    const layer = await host().cloneCheckpoint({ ...speak(source, 3), ...names })
    assert.deepEqual([layer.disk_only, layer.engine], [true, ''])
    const from_layer = { subject: workspaceSubject(source), checkpoint_id }
    const copy = await guestOf(await host().start({ ...startRequest(speak(target, 1)), from_layer }))
    assert.deepEqual([await copy.readFile('/home/kept'), await copy.readMemory()], ['text', null])
    await remove(source, target)
  })
}
