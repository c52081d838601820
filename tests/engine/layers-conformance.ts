import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { Machine } from '../../contract/internal/host-inventory.ts'
import type { LayerList } from '../../contract/internal/host-layers.ts'
import type { CommandHeader, Subject } from '../../contract/internal/host-subject.ts'
import type { StartRequest } from '../../contract/internal/host.ts'
import { HostFailure, type MachineHost } from '../../service/cell/host/hostd.ts'
import { workspaceSubject } from '../../service/cell/host/subject.ts'
import type { Guest } from './conformance.ts'

interface Suite {
  host(): MachineHost
  guest(machine: Machine): Promise<Guest>
  speak(of: string | Subject, epoch: number): CommandHeader
  startRequest(fence: CommandHeader): StartRequest
  refused(code: HostFailure['code']): (error: unknown) => boolean
}

const BOUNDS = { bytes_max: 2 ** 30, entries_max: 100_000 }

export function layers({ host, guest: guestOf, speak, startRequest, refused }: Suite): void {
  test('a layer of a checkpoint has its changes without the dropped paths, and a machine on it begins with them', async () => {
    const [source, build, target] = [randomUUID(), { kind: 'build', id: randomUUID() } as const, randomUUID()]
    const request = startRequest(speak(source, 1))
    const guest = await guestOf(await host().start(request))
    await guest.writeFile('/home/kept', 'text')
    await guest.writeFile('/tmp/dropped', 'text')
    const checkpoint_id = randomUUID()
    await host().checkpoint({ ...speak(source, 1), checkpoint_id, then: 'running', disk_only: true })
    await guest.writeFile('/home/kept', 'later')
    const of = { subject: workspaceSubject(source), checkpoint_id }
    const layer = await host().makeLayer({ ...speak(build, 0), of, drop: ['/tmp/'], ...BOUNDS })
    assert.match(layer.digest, /^[0-9a-f]{64}$/)
    assert.ok(layer.size_bytes > 0 && layer.entries > 0)
    assert.deepEqual(await host().makeLayer({ ...speak(build, 0), of, drop: ['/tmp/'], ...BOUNDS }), layer)
    const machine = await host().start({ ...startRequest(speak(target, 1)), layers: [...request.layers, layer.digest] })
    const copy = await guestOf(machine)
    assert.deepEqual([await copy.readFile('/home/kept'), await copy.readFile('/tmp/dropped')], ['text', null])
    for (const id of [source, target]) await host().deleteSubject(speak(id, 1))
  })

  test("a layer is made of an ended build's disk, and of no running or missing one", async () => {
    const build = { kind: 'build', id: randomUUID() } as const
    const request = startRequest(speak(build, 1))
    const machine = await host().start(request)
    const make = (disk: string, bounds = BOUNDS) => host().makeLayer({ ...speak(build, 1), disk, layers: request.layers, ...bounds })
    await assert.rejects(make(machine.disk), refused('already_running'))
    await host().stop(speak(build, 1))
    const layer = await make(machine.disk)
    assert.match(layer.digest, /^[0-9a-f]{64}$/)
    await assert.rejects(make('e9.9'), refused('not_found'))
    await host().deleteSubject(speak(build, 1))
    const of = { subject: workspaceSubject(randomUUID()), checkpoint_id: randomUUID() }
    await assert.rejects(host().makeLayer({ ...speak(build, 1), of, ...BOUNDS }), refused('not_found'))
  })

  test("a layer's files are listed by directory from any entry on, and a layer on no host has no list", async () => {
    const [source, build] = [randomUUID(), { kind: 'build', id: randomUUID() } as const]
    const guest = await guestOf(await host().start(startRequest(speak(source, 1))))
    await guest.writeFile('/home/listed', 'text')
    const checkpoint_id = randomUUID()
    await host().checkpoint({ ...speak(source, 1), checkpoint_id, then: 'running', disk_only: true })
    const of = { subject: workspaceSubject(source), checkpoint_id }
    const { digest } = await host().makeLayer({ ...speak(build, 0), of, ...BOUNDS })
    const all: LayerList['directories'] = []
    for (let [after, done] = ['', false]; !done; after = all.at(-1)?.path ?? '') {
      const piece = await host().listLayer(digest, after)
      all.push(...piece.directories)
      done = piece.done
    }
    const sha256 = '982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1'
    const home = all.find(({ path }) => path === '/home')?.entries.find(({ name }) => name === 'listed')
    assert.deepEqual([all[0]?.path, home?.type, home?.size_bytes, home?.sha256], ['/', 'file', 4, sha256])
    const [first] = (await host().listLayer(digest, '/')).directories
    assert.equal(first?.path, all[1]?.path)
    await assert.rejects(host().listLayer('f'.repeat(64), ''), refused('layer_missing'))
    await host().deleteSubject(speak(source, 1))
  })

  test('an existing directory of a disk becomes the root of a layer, and a missing one does not', async () => {
    const [build, target] = [{ kind: 'build', id: randomUUID() } as const, randomUUID()]
    const request = startRequest(speak(build, 1))
    const machine = await host().start(request)
    const guest = await guestOf(machine)
    await guest.writeFile('/home/inner', 'text')
    await guest.writeFile('/beside', 'text')
    await host().stop(speak(build, 1))
    const make = (root: string) => host().makeLayer({ ...speak(build, 1), disk: machine.disk, layers: request.layers, root, ...BOUNDS })
    const { digest } = await make('/home')
    const copy = await guestOf(await host().start({ ...startRequest(speak(target, 1)), layers: [...request.layers, digest] }))
    assert.deepEqual([await copy.readFile('/inner'), await copy.readFile('/beside')], ['text', null])
    for (const root of ['/home/not-here', '/home/inner']) await assert.rejects(make(root), refused('not_found'))
    await host().deleteSubject(speak(build, 1))
    await host().deleteSubject(speak(target, 1))
  })

  test('a layer in use or requested since its listing stays, and a dropped layer is refused by later starts', async () => {
    const [source, build, target] = [randomUUID(), { kind: 'build', id: randomUUID() } as const, randomUUID()]
    const request = startRequest(speak(source, 1))
    await (await guestOf(await host().start(request))).writeFile('/home/to-be-dropped', randomUUID())
    const checkpoint_id = randomUUID()
    await host().checkpoint({ ...speak(source, 1), checkpoint_id, then: 'running', disk_only: true })
    const { digest } = await host().makeLayer({ ...speak(build, 0), of: { subject: workspaceSubject(source), checkpoint_id }, ...BOUNDS })
    const on = () => ({ ...startRequest(speak(target, 1)), layers: [...request.layers, digest] })
    await host().start(on())
    const drop = async (idle_seconds_min = 0, look = host().layers()) =>
      host().dropLayers({ listing: (await look).listing, layers: [digest], idle_seconds_min })
    const found = (await host().layers()).layers.find((layer) => layer.digest === digest)
    assert.ok(found !== undefined && found.size_bytes > 0)
    assert.deepEqual(await drop(), [])
    await host().deleteSubject(speak(target, 1))
    const look = await host().layers()
    await host().keepLayers([digest])
    assert.deepEqual(await drop(0, Promise.resolve(look)), [])
    assert.deepEqual(await drop(3600), [])
    await assert.rejects(host().dropLayers({ listing: 'of.999', layers: [digest], idle_seconds_min: 0 }), refused('not_found'))
    assert.deepEqual(await drop(), [digest])
    assert.deepEqual(await drop(), [digest])
    assert.equal((await host().layers()).layers.some((layer) => layer.digest === digest), false) // prettier-ignore
    await assert.rejects(host().keepLayers([digest]), refused('layer_missing'))
    await assert.rejects(host().start(on()), refused('layer_missing'))
    for (const id of [source, target]) await host().deleteSubject(speak(id, 1))
  })

  test('a too large layer is refused with its reason', async () => {
    const build = { kind: 'build', id: randomUUID() } as const
    const request = startRequest(speak(build, 1))
    const machine = await host().start(request)
    const guest = await guestOf(machine)
    await guest.writeFile('/home/one', 'text')
    await guest.writeFile('/home/two', 'text')
    await host().stop(speak(build, 1))
    const why = async (bounds: typeof BOUNDS) => {
      const asked = host().makeLayer({ ...speak(build, 1), disk: machine.disk, layers: request.layers, ...bounds })
      return asked.then(
        () => undefined,
        (error: unknown) => (error instanceof HostFailure ? [error.code, error.details.why] : error),
      )
    }
    assert.deepEqual(await why({ ...BOUNDS, bytes_max: 5 }), ['layer_refused', 'too_large'])
    assert.deepEqual(await why({ ...BOUNDS, entries_max: 1 }), ['layer_refused', 'too_many_entries'])
    await host().deleteSubject(speak(build, 1))
  })
}
