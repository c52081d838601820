import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { call, createClient, send, type Client, type OpenedWorkspace } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import { measure, timed } from './harness.ts'

const TRUE = ['/bin/true']
const AT_ONCE = 32
const STREAM_BYTES = 64 << 20
const STALLED_BYTES = 10 ** 9
const SERVER_PORT = 8080
const TURNS_MAX = 600

export async function parallelRow(service: Service): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  const workspace = await client.open('bench-parallel')
  const run = () => client.run(workspace, TRUE)
  await measure(
    { row: 2, name: 'exec-parallel', title: `${AT_ONCE} execs at once, rate against one at a time`, bar: { at_least: 1.5 } },
    {
      reference: () =>
        timed(async () => {
          for (let n = 0; n < AT_ONCE; n++) await run()
        }),
      subject: () => timed(() => Promise.all(Array.from({ length: AT_ONCE }, run))),
    },
    { rate: true },
  )
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
}

export async function streamRow(service: Service): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  const workspace = await client.open('bench-stream')
  const server = await referenceServer(service, client, workspace)
  const source = ['head', '-c', String(STREAM_BYTES), '/dev/zero']
  const { session_id } = await client.run(workspace, source)
  const read = (id: string) => readThrough(outputUrl(workspace, id), workspace.token)
  const reference = () => timed(() => readThrough(`${server}/?bytes=${STREAM_BYTES}`))
  await measure(
    { row: 3, name: 'stream', title: 'output stream of 64 MiB, rate', bar: { at_least: 0.6 } },
    { reference, subject: () => timed(() => read(session_id)) },
    { rate: true, samples_max: 3 },
  )
  const live = async () => {
    const { body } = await client.tool<{ session_id: string }>(workspace, '/exec', { json: { argv: source } })
    await read(body.session_id)
  }
  await measure(
    { row: 3, name: 'stream-live', title: 'the same while the command writes it', bar: null },
    { reference, subject: () => timed(live) },
    { rate: true, samples_max: 3 },
  )
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
}

export async function stalledRow(service: Service): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  const workspace = await client.open('bench-stalled')
  await client.run(workspace, TRUE)
  const before = await serviceBytes(service)
  const argv = ['head', '-c', String(STALLED_BYTES), '/dev/zero']
  const { body } = await client.tool<{ session_id: string }>(workspace, '/exec', { json: { argv } })
  const stalled = await send(outputUrl(workspace, body.session_id), { token: workspace.token })
  stalled.pause()
  let most = before
  let written = 0
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    const { body: record } = await client.tool<{ state: string; stdout_bytes: number }>(workspace, `/exec/${body.session_id}`)
    most = Math.max(most, await serviceBytes(service))
    written = record.stdout_bytes
    if (record.state !== 'running') break
    await pause(100)
  }
  stalled.destroy()
  if (written !== STALLED_BYTES) throw new Error(`the command wrote ${written} bytes`)
  const mib = Math.round(((most - before) / 2 ** 20) * 10) / 10
  console.log(`4 stalled reader of 1 GB of output: +${mib} MiB, bar ≤ +64 MiB`)
  console.log(JSON.stringify({ row: 4, name: 'stalled', grown_mib: mib, bar: { at_most_mib: 64 }, reached: mib <= 64 }))
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
}

async function serviceBytes(service: Service): Promise<number> {
  const each = await Promise.all((['api', 'cell', 'hostd'] as const).map((child) => service.memory_bytes(child)))
  return each.reduce((sum, bytes) => sum + bytes, 0)
}

const outputUrl = (workspace: OpenedWorkspace, session_id: string) =>
  `${workspace.endpoint}/v1/workspaces/${workspace.id}/exec/${session_id}/output`

async function readThrough(url: string, token?: string): Promise<void> {
  const response = await send(url, token === undefined ? {} : { token })
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) bytes += chunk.length
  if (response.statusCode !== 200 || bytes < STREAM_BYTES) throw new Error(`${url} answered ${response.statusCode} with ${bytes} bytes`)
}

async function referenceServer(service: Service, client: Client, workspace: OpenedWorkspace): Promise<string> {
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-bench-'))
  const binary = path.join(folder, 'server')
  try {
    const source = path.join(import.meta.dirname, 'ndjson-server.go')
    execFileSync('go', ['build', '-ldflags', '-s -w', '-o', binary, source], { env: { ...process.env, CGO_ENABLED: '0', GOFLAGS: '' } })
    const put = { method: 'PUT', bytes: readFileSync(binary), headers: { 'content-type': 'application/octet-stream' } }
    const { status } = await client.tool(workspace, '/files?path=/home/user/server&mode=0755', put)
    if (status !== 200) throw new Error(`the server was not written: ${status}`)
  } finally {
    rmSync(folder, { recursive: true })
  }
  await client.tool(workspace, '/exec', { json: { argv: ['/home/user/server', `0.0.0.0:${SERVER_PORT}`] } })
  const machine = (await service.inventory()).machines.find(({ subject }) => subject.id === workspace.id)
  const url = `http://${machine?.address.split(':')[0]}:${SERVER_PORT}`
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    const answered = await call(`${url}/?bytes=0`).catch(() => null)
    if (answered?.status === 200) return url
    await pause(20)
  }
  throw new Error('the reference in the guest does not answer')
}
