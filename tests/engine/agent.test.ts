import { randomUUID } from 'node:crypto'
import { agentConformance } from './agent-conformance.ts'
import { openRealHost } from './real-host.ts'
import { terminalConformance } from './terminal-conformance.ts'
import { workspaceSubject } from '../../service/cell/host/subject.ts'

agentConformance('in a real machine', async () => {
  const { machine, close } = await openMachine()
  return {
    ask: (method, path, body, key = machine.agent_key) =>
      fetch(`http://${machine.address}${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, 'x-berth-epoch': String(machine.epoch), connection: 'close' },
        ...(body === undefined ? {} : { body: body instanceof Buffer ? new Uint8Array(body) : JSON.stringify(body) }),
        signal: AbortSignal.timeout(60_000),
      }),
    play: () => undefined,
    close,
  }
})

terminalConformance('in a real machine', async () => {
  const { machine, close } = await openMachine()
  return {
    address: machine.address,
    headers: { authorization: `Bearer ${machine.agent_key}`, 'x-berth-epoch': String(machine.epoch), connection: 'close' },
    play: () => Promise.resolve(),
    close,
  }
})

async function openMachine() {
  const { host, layers, close } = await openRealHost()
  const workspace_id = randomUUID()
  const speaks = { subject: workspaceSubject(workspace_id), operation_id: randomUUID(), step: 'start', epoch: 1 }
  const resources = { cpu_millis: 1000, memory_mib: 256, disk_gib: 1 }
  const machine = await host.start({ ...speaks, fence: 1, resources, hostname: 'box', layers })
  return { machine, close }
}
