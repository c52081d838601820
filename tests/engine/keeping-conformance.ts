import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { CommandHeader, HostFailure, Machine, MachineHost, SubjectFiles } from '../../service/cell/host/hostd.ts'
import { workspaceSubject } from '../../service/cell/host/subject.ts'

interface Suite {
  host(): MachineHost
  start(workspace_id: string): Promise<Machine>
  speak(workspace_id: string, epoch: number): CommandHeader
  remove(...workspace_ids: string[]): Promise<void>
  filesOf(workspace_id: string): Promise<SubjectFiles | undefined>
  refused(code: HostFailure['code']): (error: unknown) => boolean
  fence(): number
}

export function keeping({ host, start, speak, remove, filesOf, refused, fence }: Suite): void {
  test('the quarantine reports since when, the latest list replaces earlier ones, and it ends with the workspace', async () => {
    const id = randomUUID()
    const machine = await start(id)
    const list = { disks: [machine.disk], checkpoints: [] }
    await host().quarantine({ ...speak(id, 1), whole: true, ...list })
    const first = (await filesOf(id))?.quarantined ?? []
    assert.deepEqual(first.map(({ kind, name }) => [kind, name]).sort(), [['disk', machine.disk], ['subject', id]]) // prettier-ignore
    await host().quarantine({ ...speak(id, 1), ...list })
    assert.deepEqual((await filesOf(id))?.quarantined, first.filter(({ kind }) => kind === 'disk')) // prettier-ignore
    await remove(id)
    assert.equal((await filesOf(id))?.quarantined.length ?? 0, 0)
    await assert.rejects(host().quarantine({ ...speak(id, 1), ...list }), refused('not_found'))
  })

  test('a glance shows machines and no files, and the highest fence of all', async () => {
    const id = randomUUID()
    const machine = await start(id)
    const { machines, files, highest_fence } = await host().glance()
    assert.deepEqual([machines.map(({ subject }) => subject.id), files, highest_fence], [[id], [], fence()])
    assert.deepEqual((await host().stats([randomUUID(), id].map(workspaceSubject))).map((one) => [one.subject.id, one.fence]), [[id, machine.fence]]) // prettier-ignore
    await remove(id)
  })

  test('a host belongs to the first installation that uses it, and refuses another', async () => {
    const [first, second] = [randomUUID(), randomUUID()]
    await host().claim(first)
    await host().claim(first)
    await assert.rejects(host().claim(second), refused('wrong_installation'))
    assert.equal((await host().glance()).installation, first)
    const id = randomUUID()
    await start(id)
    await remove(id)
  })
}
