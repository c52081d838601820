import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { Machine } from '../../contract/internal/host-inventory.ts'
import type { CommandHeader } from '../../contract/internal/host-subject.ts'
import type { StartRequest } from '../../contract/internal/host.ts'
import type { HostFailure, MachineHost } from '../../service/cell/host/hostd.ts'
import { volumeSubject } from '../../service/cell/host/subject.ts'

interface Suite {
  host(): MachineHost
  start(workspace_id: string): Promise<Machine>
  speak(workspace_id: string, epoch: number): CommandHeader
  startRequest(fence: CommandHeader): StartRequest
  remove(...workspace_ids: string[]): Promise<void>
  refused(code: HostFailure['code']): (error: unknown) => boolean
}

export function volumes({ host, start, speak, startRequest, remove, refused }: Suite): void {
  const of = (id: string) => ({ ...speak(id, 0), subject: volumeSubject(id) })
  const create = (id: string) => host().createVolume({ ...of(id), quota_gib: 1 })
  const mounted = (volume_id: string, place: number) => ({ volume_id, place, mount_path: `/home/user/data${place}`, read_only: false })
  const here = async (id: string) => (await host().inventory()).volumes.find((one) => one.volume_id === id)

  test('a volume exists once, however often it is made, and is measured, kept and deleted by its id', async () => {
    const id = randomUUID()
    await create(id)
    await create(id)
    assert.deepEqual(await here(id), { volume_id: id })
    assert.deepEqual([...(await host().measureVolumes([id, randomUUID()])).keys()], [id])
    await host().keepVolume({ ...of(id), keep: true })
    const kept = await here(id)
    assert.ok(kept?.kept_since !== undefined)
    await host().keepVolume({ ...of(id), keep: true })
    assert.deepEqual(await here(id), kept)
    await host().keepVolume({ ...of(id), keep: false })
    assert.deepEqual(await here(id), { volume_id: id })
    assert.deepEqual((await host().glance()).volumes, [])
    const early = of(id)
    await host().deleteVolume(of(id))
    await host().deleteVolume(of(id))
    assert.equal(await here(id), undefined)
    assert.equal((await host().measureVolumes([id])).size, 0)
    await assert.rejects(host().keepVolume({ ...of(id), keep: true }), refused('not_found'))
    await assert.rejects(host().createVolume({ ...early, quota_gib: 1 }), refused('fenced'))
  })

  test('a running machine has the latest list of volumes, and a list with a missing one changes nothing', async () => {
    const [one, two, id] = [randomUUID(), randomUUID(), randomUUID()]
    for (const volume of [one, two]) await create(volume)
    await start(id)
    const set = (...list: ReturnType<typeof mounted>[]) => host().setVolumes({ ...speak(id, 1), volumes: list })
    await set(mounted(one, 0), mounted(two, 1))
    await set(mounted(one, 0), mounted(two, 1))
    await assert.rejects(set(mounted(randomUUID(), 2)), refused('not_found'))
    await set(mounted(two, 1))
    await set()
    await set(mounted(one, 0))
    await host().freeze(speak(id, 1))
    await set(mounted(one, 0), mounted(two, 1))
    assert.equal((await host().glance()).machines.find(({ subject }) => subject.id === id)?.state, 'frozen')
    await host().deleteVolume(of(one)) // a machine has attached this volume
    await host().thaw(speak(id, 1))
    await assert.rejects(host().setVolumes({ ...speak(id, 1), fence: 1, volumes: [] }), refused('fenced'))
    await host().stop(speak(id, 1))
    await assert.rejects(set(), refused('not_running'))
    await remove(id)
    await host().deleteVolume(of(two))
  })

  test("a start and a restore mount the machine's volumes, and go on without a missing one", async () => {
    const [volume, id] = [randomUUID(), randomUUID()]
    await create(volume)
    const list = [mounted(volume, 0), mounted(randomUUID(), 1)]
    const request = startRequest(speak(id, 1))
    await host().start({ ...request, volumes: list })
    const { checkpoint_id } = await host().checkpoint({ ...speak(id, 1), checkpoint_id: randomUUID(), then: 'paused' })
    await host().stop(speak(id, 1))
    await host().deleteVolume(of(volume))
    const { resources, hostname } = request
    await host().restore({ ...speak(id, 2), resources, hostname, checkpoint_id, volumes: list })
    await host().setVolumes({ ...speak(id, 2), volumes: [] })
    await remove(id)
  })
}
