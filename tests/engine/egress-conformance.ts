import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { HostEgress } from '../../contract/internal/host-egress.ts'
import type { Machine } from '../../contract/internal/host-inventory.ts'
import type { CommandHeader } from '../../contract/internal/host-subject.ts'
import type { StartRequest } from '../../contract/internal/host.ts'
import type { HostFailure, MachineHost } from '../../service/cell/host/hostd.ts'
import { workspaceSubject } from '../../service/cell/host/subject.ts'

interface Suite {
  host(): MachineHost
  start(workspace_id: string): Promise<Machine>
  speak(workspace_id: string, epoch: number): CommandHeader
  startRequest(fence: CommandHeader): StartRequest
  remove(...workspace_ids: string[]): Promise<void>
  refused(code: HostFailure['code']): (error: unknown) => boolean
}

const POLICY: HostEgress = {
  revision: 'first',
  mode: 'allowlist',
  rules: [{ host: 'api.example.com', ports: [443] }],
  cidrs: ['8.8.8.0/24'],
}

export function egress({ host, start, speak, startRequest, remove, refused }: Suite): void {
  const inForce = async (id: string) => (await host().glance()).machines.find(({ subject }) => subject.id === id)?.egress

  test('a policy is in force when the host has answered, on a running, frozen, restored or new machine', async () => {
    const id = randomUUID()
    await start(id)
    const set = (egress: HostEgress) => host().setEgress({ ...speak(id, 1), egress })
    assert.equal((await set(POLICY)).revision, 'first')
    assert.deepEqual(await inForce(id), { revision: 'first', state: 'enforced' })
    assert.deepEqual(await host().egressDenials(workspaceSubject(id)), [])
    await host().freeze(speak(id, 1))
    await set({ revision: 'second', mode: 'deny_all', rules: [], cidrs: [] })
    assert.deepEqual(await inForce(id), { revision: 'second', state: 'enforced' })
    await host().thaw(speak(id, 1))
    const { checkpoint_id } = await host().checkpoint({ ...speak(id, 1), checkpoint_id: randomUUID(), then: 'paused' })
    await assert.rejects(host().setEgress({ ...speak(id, 1), fence: 1, egress: POLICY }), refused('fenced'))
    await host().stop(speak(id, 1))
    await assert.rejects(set(POLICY), refused('not_running'))
    assert.deepEqual(await host().egressDenials(workspaceSubject(id)), [])
    const request = startRequest(speak(id, 2))
    await host().restore({ ...speak(id, 2), resources: request.resources, hostname: 'box', checkpoint_id, egress: POLICY })
    assert.deepEqual(await inForce(id), { revision: 'first', state: 'enforced' })
    await host().stop(speak(id, 2))
    await host().start({ ...startRequest(speak(id, 3)), egress: { ...POLICY, revision: 'third' } })
    assert.deepEqual(await inForce(id), { revision: 'third', state: 'enforced' })
    await remove(id)
  })
}
