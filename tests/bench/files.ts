import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { open, rename } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { call, createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import { measure, timed } from './harness.ts'

const LARGE = 7 << 20
const SMALL = 4 << 10
/** A single request is too short to time. */
const BATCH = 20
const PORT = 8080

const repeated = (times: number, request: () => Promise<unknown>) => () =>
  timed(async () => {
    for (let n = 0; n < times; n++) await request()
  })

export async function fileReadRows(service: Service): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  const workspace = await client.open('bench-read-files')
  const bare = await staticServer(service, client, workspace)
  for (const [name, bytes] of [
    ['large', LARGE],
    ['small', SMALL],
  ] as const) {
    await written(client, workspace, name, randomBytes(bytes))
    // The digest is cached once the file has been unchanged for two seconds.
    await client.run(workspace, ['sleep', '2.5'])
    const reference = async () => {
      const { status, bytes: read } = await call(`${bare}/${name}`)
      if (status !== 200 || read.length !== bytes) throw new Error(`the static server answered ${status}`)
    }
    const subject = async () => {
      const { status, bytes: read } = await client.tool(workspace, `/files?path=/home/user/${name}`)
      if (status !== 200 || read.length !== bytes) throw new Error(`the gateway answered ${status}`)
    }
    if (name === 'large') {
      const row = { row: 6, name: 'read-7mib', title: 'read a 7 MiB file, rate', bar: { at_least: 0.6 } }
      await measure(row, { reference: repeated(1, reference), subject: repeated(1, subject) }, { rate: true })
    } else {
      const row = { row: 6, name: 'read-4kib', title: 'read a 4 KiB file', bar: { at_most: 2.5 } }
      await measure(row, { reference: repeated(BATCH, reference), subject: repeated(BATCH, subject) })
    }
  }
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
}

export async function fileWriteRows(service: Service): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  const workspace = await client.open('bench-write-files')
  const folder = path.join(service.pool_path(), 'bench-write')
  mkdirSync(folder)
  for (const [name, bytes, at_most] of [
    ['7mib', LARGE, 2],
    ['4kib', SMALL, 4],
  ] as const) {
    const content = randomBytes(bytes)
    await measure(
      { row: 7, name: `write-${name}`, title: `durable write of ${name}`, bar: { at_most } },
      {
        reference: repeated(bytes === SMALL ? 5 : 1, () => durably(folder, name, content)),
        subject: repeated(bytes === SMALL ? 5 : 1, () => written(client, workspace, name, content)),
      },
    )
  }
  rmSync(folder, { recursive: true })
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
}

async function written(client: Client, workspace: OpenedWorkspace, name: string, bytes: Buffer): Promise<void> {
  const { status, body } = await client.tool(workspace, `/files?path=/home/user/${name}`, { method: 'PUT', bytes })
  if (status !== 200 || body['durable'] !== true) throw new Error(`the write answered ${status}: ${JSON.stringify(body)}`)
}

/** A gateway's write in plain Node: new file, digest, fsync, rename, fsync of the directory. */
async function durably(folder: string, name: string, bytes: Buffer): Promise<string> {
  const temporary = path.join(folder, `${randomBytes(8).toString('hex')}.tmp`)
  const file = await open(temporary, 'wx', 0o644)
  await file.write(bytes)
  const digest = createHash('sha256').update(bytes).digest('hex')
  await file.sync()
  await file.close()
  await rename(temporary, path.join(folder, name))
  const directory = await open(folder, 'r')
  await directory.sync()
  await directory.close()
  return digest
}

async function staticServer(service: Service, client: Client, workspace: OpenedWorkspace): Promise<string> {
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-bench-'))
  const binary = path.join(folder, 'server')
  try {
    const source = path.join(import.meta.dirname, 'static-server', 'main.go')
    execFileSync('go', ['build', '-ldflags', '-s -w', '-o', binary, source], { env: { ...process.env, CGO_ENABLED: '0' } })
    await client.tool(workspace, '/files?path=/home/user/server&mode=0755', { method: 'PUT', bytes: readFileSync(binary) })
  } finally {
    rmSync(folder, { recursive: true })
  }
  const argv = ['/home/user/server', `0.0.0.0:${PORT}`, '/home/user']
  await client.tool(workspace, '/exec', { json: { session_id: 'server', argv } })
  await client.run(workspace, [
    'bash',
    '-c',
    `for i in $(seq 100); do (: > /dev/tcp/127.0.0.1/${PORT}) 2>/dev/null && exit 0; sleep 0.05; done; exit 1`,
  ])
  const machine = (await service.inventory()).machines.find((each) => each.subject.id === workspace.id)
  if (machine === undefined) throw new Error('the workspace has no machine')
  return `http://${machine.address.replace(/:\d+$/, '')}:${PORT}`
}
