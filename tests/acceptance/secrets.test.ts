import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { createReadStream, readdirSync, readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { attach } from '../support/attached.ts'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { startService, type Service } from '../support/service.ts'

const NAME = 'CANARY'
/** Built at use, because this process is also searched. */
const value = (word: string) => `canary-${ID}-${word}`
const ID = randomUUID()
const CONTROL = `control-${ID}`
/** Memory checkpoints are excluded, because they contain the values of their processes. */
const MEMORIES = /\/checkpoints\/[^/]+\/(?!disk\/)/

let service: Service
let client: Client
let workspace: OpenedWorkspace
let project_id: string
let secret_id: string
before(async () => {
  service = await startService()
  client = createClient(service.base_url, service.api_key)
  const { body } = await client.api<{ api_key: { project_id: string } }>('/v1/me')
  project_id = body.api_key.project_id
})
after(() => service.stop())

/** Prints a digest, because output is stored on the disk. */
const SHOW = `printf %s "$${NAME}" | sha256sum | cut -c1-64`
const digest = (text: string) => createHash('sha256').update(text).digest('hex')
const seen = async (at: OpenedWorkspace, body: Record<string, unknown> = {}) =>
  (await client.run(at, ['sh', '-c', SHOW], body)).stdout.trim()

test('a command and a terminal of a bound workspace have the value', async () => {
  const created = await client.api<{ id: string }>(`/v1/projects/${project_id}/secrets`, { json: { name: NAME, value: value('one') } })
  assert.equal(created.status, 201)
  secret_id = created.body.id
  workspace = await client.open('canary', { secrets: [NAME] })
  assert.equal(await seen(workspace), digest(value('one')))
  const opened = await client.tool(workspace, '/pty', { json: { session_id: 'canary-pty', argv: ['sh', '-c', SHOW] } })
  assert.equal(opened.status, 201)
  const terminal = await attach(`${workspace.endpoint}/v1/workspaces/${workspace.id}/pty/canary-pty/attach`, { token: workspace.token })
  assert.match(await terminal.until(/[0-9a-f]{64}/), new RegExp(digest(value('one'))))
  await terminal.rest()
})

test('a running command keeps its value, and one started after a rotation has the new value', async () => {
  const session_id = 'keeps'
  const loop = ['sh', '-c', `while [ ! -e /tmp/go ]; do sleep 0.1; done; ${SHOW}`]
  await client.tool(workspace, '/exec', { json: { session_id, argv: loop } })
  const rotated = await client.api(`/v1/secrets/${secret_id}/versions`, { json: { value: value('two') } })
  assert.equal(rotated.status, 201)
  assert.equal(await seen(workspace), digest(value('two')))
  await client.run(workspace, ['touch', '/tmp/go'])
  assert.equal((await client.run(workspace, loop, { session_id })).stdout.trim(), digest(value('one')))
})

test('a resumed workspace and a fork have the value, and an unbound workspace does not', async () => {
  await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  workspace = await client.open('canary')
  assert.equal(await seen(workspace), digest(value('two')))
  await client.operate(`/v1/workspaces/${workspace.id}/fork`, { json: { key: 'canary-fork' } })
  assert.equal(await seen(await client.open('canary-fork')), digest(value('two')))
  const other = await client.open('canary-other')
  assert.equal(await seen(other), digest(''))
  assert.equal(await seen(other, { secret_refs: [NAME] }), digest(value('two')))
})

test('no database, log, key, disk, command line or environment of this computer contains a value', async () => {
  const rotated = await service.admin('keys', 'rotate-kek')
  assert.equal(await seen(workspace), digest(value('two')))
  assert.match(await service.admin('doctor'), new RegExp(`${rotated.trim().slice(0, 8)} has 1`))
  await client.run(workspace, ['sh', '-c', `echo ${CONTROL} > /home/user/control`])
  await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  // The agent must leave nothing of the ended commands' processes on the disk.
  await service.query('checkpoint') // writes committed rows to files
  const either = value('') // common prefix of both values
  const kept = ['pg', 'logs', 'keys', 'compiled'].map((name) => path.join(service.data_dir, name))
  assert.deepEqual(await filesWith(either, [...kept, path.join(service.run_dir, 'config'), diskOf(workspace.id)]), [])
  assert.deepEqual(processesWith(either), [])
  // Proof that the search works: it finds the secret's name in the database, and a command's text on the disk.
  assert.notDeepEqual(await filesWith(NAME, [path.join(service.data_dir, 'pg')]), [])
  assert.notDeepEqual(await filesWith(CONTROL, [diskOf(workspace.id)]), [])
})

test('a deleted secret is given to no command that starts later', async () => {
  assert.equal((await client.api(`/v1/secrets/${secret_id}`, { method: 'DELETE' })).status, 204)
  workspace = await client.open('canary')
  assert.equal(await seen(workspace), digest(''))
  const { status } = await client.tool(workspace, '/exec', { json: { argv: ['true'], secret_refs: [NAME] } })
  assert.equal(status, 403)
})

function diskOf(workspace_id: string): string {
  return path.join(service.pool_path(), 'ws', workspace_id)
}

async function filesWith(text: string, places: string[]): Promise<string[]> {
  const found: string[] = []
  for (const place of places) {
    for (const entry of await readdir(place, { recursive: true, withFileTypes: true })) {
      const file = path.join(entry.parentPath, entry.name)
      if (entry.isFile() && !MEMORIES.test(file) && (await holds(file, Buffer.from(text)))) found.push(file)
    }
  }
  return found
}

async function holds(file: string, text: Buffer): Promise<boolean> {
  let before = Buffer.alloc(0)
  try {
    for await (const chunk of createReadStream(file, { highWaterMark: 4 << 20 }) as AsyncIterable<Buffer>) {
      const all = Buffer.concat([before, chunk])
      if (all.includes(text)) return true
      before = all.subarray(-text.length)
    }
    return false
  } catch (error) {
    // The file vanished during the read, or is a special file of the kernel.
    if (['ENOENT', 'EINVAL', 'ENXIO'].includes((error as NodeJS.ErrnoException).code ?? '')) return false
    throw error
  }
}

function processesWith(text: string): string[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids
    .flatMap((pid) => ['cmdline', 'environ'].map((file) => `/proc/${pid}/${file}`))
    .filter((file) => contentOf(file).includes(text))
}

function contentOf(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return '' // it ended, or is a kernel thread
  }
}
