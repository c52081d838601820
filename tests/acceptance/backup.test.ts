// Own installations: a backup of one is restored as the other.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { assertCounts, startCounter } from '../support/counter.ts'
import { startTimeOf } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'
import { cleanEnvironment, TEST_ROOT } from '../support/sweep.ts'
import { patience } from '../support/patience.ts'

const TOOLS = path.resolve(import.meta.dirname, '../../tools')
const COMMAND_MS = 300_000
const caps = { memory_mib: 512 }
const settings = { slot_memory_mib: 512 }
let folder: string
let restored: string
let first: Service
let second: Service | undefined

before(async () => {
  first = await startService({ settings })
  folder = await mkdtemp(path.join(TEST_ROOT, 'backup-'))
  await chmod(folder, 0o755) // the user of the database must be able to pass through this folder
  restored = path.join(folder, 'data')
  // By this file, the runner removes the installation of a killed test.
  await writeFile(
    path.join(folder, 'owner'),
    JSON.stringify({ pid: process.pid, start_time: startTimeOf(process.pid), data_dir: restored }),
  )
})
after(async () => {
  await second?.stop()
  await first.stop()
  await rm(folder, { recursive: true, force: true })
})

const clientOf = ({ base_url, api_key }: Service) => createClient(base_url, api_key)

async function tool(name: string, data_dir: string, ...rest: string[]): Promise<void> {
  await promisify(execFile)(process.execPath, [path.join(TOOLS, name), '--data-dir', data_dir, ...rest], {
    env: cleanEnvironment(),
    timeout: patience(COMMAND_MS),
  })
}

async function write(client: Client, workspace: OpenedWorkspace, text: string): Promise<void> {
  const { body } = await client.tool(workspace, '/files?path=/home/user/written', { method: 'PUT', bytes: Buffer.from(text) })
  assert.equal(body['durable'], true, JSON.stringify(body))
}

async function read(client: Client, workspace: OpenedWorkspace): Promise<string> {
  return (await client.tool(workspace, '/files?path=/home/user/written')).bytes.toString()
}

test('a backup restored to a second data directory resumes suspended workspaces, starts running ones from disk, and the first installation goes on', async () => {
  const client = clientOf(first)
  const [asleep, ran] = [await client.open('asleep', { caps }), await client.open('ran', { caps })]
  for (const one of [asleep, ran]) await write(client, one, 'before')
  await startCounter(client, asleep)
  const counted = await assertCounts(client, asleep)
  assert.equal((await client.operate(`/v1/workspaces/${asleep.id}/suspend`)).state, 'succeeded')
  const target = path.join(folder, 'backup')

  await assert.rejects(tool('backup.mjs', first.data_dir, target), /Something runs on/)
  await first.stopProcesses()
  await assert.rejects(tool('backup.mjs', first.data_dir, target), /The pool is still in use/)
  assert.ok(!existsSync(target))
  await tool('clean.mjs', first.data_dir)
  await tool('backup.mjs', first.data_dir, target)
  await tool('restore.mjs', restored, target)

  await first.ready()
  second = await startService({ data_dir: restored, settings })
  assert.notEqual(second.instance, first.instance)
  for (const service of [second, first]) {
    const there = clientOf(service)
    const woken = await there.open('asleep')
    assert.equal(woken.id, asleep.id)
    assert.equal(await read(there, woken), 'before')
    assert.ok((await assertCounts(there, woken)) > counted)
    assert.equal(await read(there, await there.open('ran')), 'before')
    await write(there, woken, service.instance)
  }
  for (const service of [second, first]) {
    const there = clientOf(service)
    assert.equal(await read(there, await there.open('asleep')), service.instance)
  }
})
