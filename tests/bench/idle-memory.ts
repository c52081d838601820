import { execFile } from 'node:child_process'
import { copyFileSync, globSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { createClient } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import { measure } from './harness.ts'
import { treeMemoryMib } from './process-memory.ts'
import { createRawSandbox } from './raw-sandbox.ts'

const execute = promisify(execFile)
const ONCE = { samples_max: 1, pairs: 9, unit: 'MiB' }

export async function idleMemoryRow(service: Service): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  const workspace = await client.open('bench-memory')
  await client.run(workspace, ['/bin/true'])
  const { sandbox } = await service.machine(workspace.id)
  const raw = createRawSandbox(service.runsc, service.layer)
  const id = `idle-${process.pid}`
  try {
    const bundle = raw.bundle(['/agent'])
    const root = path.join(bundle, 'root')
    const [agent] = globSync(path.join(service.data_dir, 'agents', '*', 'agent'))
    if (agent === undefined) throw new Error('The service keeps no agent')
    copyFileSync(agent, path.join(root, 'agent'))
    for (const folder of ['claim/root', 'claim/state', 'inc']) mkdirSync(path.join(root, folder), { recursive: true })
    writeFileSync(path.join(root, 'inc', '0.json'), JSON.stringify({ epoch: 0, key: 'key-of-the-raw-sandbox' }))
    await raw.runsc('run', '--detach', '--bundle', bundle, id)
    await measure(
      { row: 22, name: 'idle-memory', title: 'memory of an idle workspace', bar: { at_most: 1.15 } },
      { reference: () => memoryOf(id), subject: () => memoryOf(sandbox) },
      ONCE,
    )
  } finally {
    await raw.runsc('delete', '--force', id)
    raw.close()
    await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
  }
}

/** MiB of the engine's kernel, its file server and guest code; shared pages count once. */
async function memoryOf(sandbox: string): Promise<number> {
  const { stdout } = await execute('pgrep', ['--full', `^runsc-(sandbox|gofer) .*${sandbox}( |$)`])
  return treeMemoryMib(stdout.trim().split('\n').map(Number))
}
