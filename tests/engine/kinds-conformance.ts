import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { CommandHeader, HostFailure, MachineHost, StartRequest } from '../../service/cell/host/hostd.ts'
import { MACHINE_KINDS, workspaceSubject, type Subject } from '../../service/cell/host/subject.ts'

interface Suite {
  host(): MachineHost
  speak(of: string | Subject, epoch: number): CommandHeader
  startRequest(fence: CommandHeader): StartRequest
  refused(code: HostFailure['code']): (error: unknown) => boolean
}

const same = (a: Subject, b: Subject): boolean => a.kind === b.kind && a.id === b.id

export function kinds({ host, speak, startRequest, refused }: Suite): void {
  const OTHERS = MACHINE_KINDS.filter((kind) => kind !== 'workspace')
  for (const kind of OTHERS)
    test(`${kind}: start, inventory, counters, checkpoint, stop, restore and delete, beside a workspace of the same id`, async () => {
      const subject: Subject = { kind, id: randomUUID() }
      const workspace = workspaceSubject(subject.id)
      const beside = await host().start(startRequest(speak(workspace, 1)))
      const machine = await host().start(startRequest(speak(subject, 1)))
      assert.deepEqual(machine.subject, subject)
      await assert.rejects(host().start(startRequest(speak(subject, 1))), refused('already_running'))
      const { machines, files } = await host().inventory()
      const fences = (of: Subject) => machines.filter((one) => same(one.subject, of)).map(({ fence }) => fence)
      assert.deepEqual([fences(subject), fences(workspace)], [[machine.fence], [beside.fence]])
      assert.deepEqual(files.find((one) => same(one.subject, subject))?.disks, [machine.disk])
      const [counters] = await host().stats([subject])
      assert.deepEqual([counters?.subject, counters?.fence], [subject, machine.fence])

      const checkpoint_id = randomUUID()
      const info = await host().checkpoint({ ...speak(subject, 1), checkpoint_id, then: 'paused' })
      assert.deepEqual([info.subject, info.counters?.subject, info.counters?.fence], [subject, subject, machine.fence])
      const last = await host().stop(speak(subject, 1))
      assert.deepEqual([last?.subject, last?.fence], [subject, machine.fence])
      assert.ok((last?.cpu_usec ?? 0) >= (info.counters?.cpu_usec ?? 0) && (last?.ran_ms ?? 0) >= (info.counters?.ran_ms ?? 0))
      assert.deepEqual(await host().stop(speak(subject, 1)), last, 'a stop that is asked again tells the same')
      assert.deepEqual((await host().stats([subject, workspace])).map((one) => one.fence), [beside.fence]) // prettier-ignore

      const { resources, hostname } = startRequest(speak(subject, 2))
      const again = await host().restore({ ...speak(subject, 2), resources, hostname, checkpoint_id })
      assert.deepEqual(again.subject, subject)
      const late = { ...speak(subject, 2), fence: 1 }
      await assert.rejects(host().stop(late), refused('fenced'))
      assert.equal((await host().deleteSubject(speak(subject, 2)))?.fence, again.fence)
      const left = await host().inventory()
      assert.deepEqual(
        [...left.machines, ...left.files].filter((one) => one.subject.id === subject.id).map((one) => one.subject.kind),
        ['workspace', 'workspace'],
      )
      await host().deleteSubject(speak(workspace, 1))
    })
}
