import { execFile } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Client, OpenedWorkspace } from '../support/client.ts'
import { until } from '../support/processes.ts'
import type { Service } from '../support/service.ts'
import { measure, timed } from './harness.ts'
import { createRawSandbox } from './raw-sandbox.ts'
import { withService } from './with-service.ts'

const execute = promisify(execFile)
const PARK_MS = 60_000
const CALLS = 20
const ONCE = { samples_max: 1, pairs: 9 }

export async function parkedRows(): Promise<void> {
  await withService({ freeze_after_seconds: 1, hibernate_after_seconds: 0 }, frozenRow)
  await withService({ freeze_after_seconds: 1, hibernate_after_seconds: 2 }, hibernatedRow)
}

/** /tmp is on no disk, so this call reaches the machine itself. */
async function call(client: Client, workspace: OpenedWorkspace): Promise<number> {
  let status = 0
  const ms = await timed(async () => {
    status = (await client.tool(workspace, '/files/stat?path=/tmp')).status
  })
  if (status !== 200) throw new Error(`The call answered ${status}`)
  return ms
}

async function frozenRow(service: Service, client: Client): Promise<void> {
  const workspace = await client.open('bench-frozen')
  const { sandbox, runsc_root } = await service.machine(workspace.id)
  const at = ['--root', runsc_root]
  const state = async () => (await service.inventory()).machines.find((one) => one.subject.id === workspace.id)?.state
  await measure(
    { row: 16, name: 'thaw', title: 'first call on a frozen machine, beyond the next ones', bar: { at_most: 0.1 } },
    {
      async reference() {
        await call(client, workspace) // the call keeps the machine thawed for a second
        const ms = await timed(async () => {
          await execute(service.runsc, [...at, 'pause', sandbox])
          await execute(service.runsc, [...at, 'resume', sandbox])
        })
        return ms
      },
      async subject() {
        await until('it is frozen', PARK_MS, async () => (await state()) === 'frozen')
        const first = await call(client, workspace)
        const next: number[] = []
        for (let turn = 0; turn < CALLS; turn += 1) next.push(await call(client, workspace))
        const resident = next.sort((a, b) => a - b)[CALLS / 2] ?? 0
        return Math.max(first - resident, 0)
      },
    },
    ONCE,
  )
}

async function hibernatedRow(service: Service, client: Client): Promise<void> {
  const workspace = await client.open('bench-hibernated')
  const raw = createRawSandbox(service.runsc, service.layer)
  const image = path.join(raw.directory, 'image')
  let count = 0
  try {
    mkdirSync(image)
    await raw.runsc('run', '--detach', '--bundle', raw.bundle(['sleep', '100000']), 'origin')
    await raw.runsc('checkpoint', '--image-path', image, 'origin')
    await raw.runsc('delete', '--force', 'origin')
    const hasMachine = async () => (await service.inventory()).machines.some((one) => one.subject.id === workspace.id)
    await measure(
      { row: 17, name: 'wake', title: 'first call on a hibernated machine, small guest', bar: { at_most: 1 } },
      {
        async reference() {
          const id = `restored-${count++}`
          const bundle = raw.bundle(['sleep', '100000'])
          const ms = await timed(() => raw.runsc('restore', '--detach', '--image-path', image, '--bundle', bundle, id))
          await raw.runsc('delete', '--force', id)
          return ms
        },
        async subject() {
          await until('it is hibernated', PARK_MS, async () => !(await hasMachine()))
          await service.slots_ready()
          return call(client, workspace)
        },
      },
      ONCE,
    )
  } finally {
    raw.close()
  }
}
