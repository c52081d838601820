import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { Berth, type Workspace } from '../../sdk/typescript/src/main.ts'
import { bundleCli } from '../../tools/sdk/bundle.ts'
import { createClient, type OpenedWorkspace } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import { measure, printSeconds, timed } from './harness.ts'

const TRUE = ['/bin/true']
const BATCH = 10
const FILE_BYTES = 7 << 20
const STREAM_BYTES = 64 << 20
const TIMES = 21
const ROOT = path.resolve(import.meta.dirname, '../..')

export async function sdkRows(service: Service): Promise<void> {
  const berth = new Berth({ url: service.base_url, apiKey: service.api_key })
  const ws = await berth.open('bench-sdk', { template: 'base' })
  const raw = await createClient(service.base_url, service.api_key).open('bench-sdk')
  await libraryRows(ws, raw)
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-bench-'))
  try {
    const file = path.join(folder, 'berth.cjs')
    await bundleCli(file)
    await commandRows(service, file, folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
  await pythonRow()
  await ws.delete()
}

async function libraryRows(ws: Workspace, raw: OpenedWorkspace): Promise<void> {
  const base = `${raw.endpoint}/v1/workspaces/${raw.id}`
  const headers = { authorization: `Bearer ${raw.token}` }
  const output = async (id: string) => {
    const { body } = await fetch(`${base}/exec/${id}/output`, { headers })
    let bytes = 0
    for await (const line of linesOf(body)) {
      const event = JSON.parse(line) as { type: string; data?: string }
      if (event.data !== undefined) bytes += Buffer.from(event.data, 'base64').length
    }
    return bytes
  }
  const exec = async () => {
    const json = { argv: TRUE, session_id: crypto.randomUUID() }
    const request = { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify(json) }
    await (await fetch(`${base}/exec`, request)).json()
    await output(json.session_id)
  }
  await measure(
    { row: 0, name: 'sdk-exec', title: `${BATCH} commands by the SDK against the same requests alone`, bar: { at_most: 1.05 } },
    { reference: () => timed(() => times(BATCH, exec)), subject: () => timed(() => times(BATCH, () => ws.exec(TRUE))) },
    { pairs: 15, warm_ups: 5 },
  )
  const file = '/home/user/seven'
  await ws.files.write(file, Buffer.alloc(FILE_BYTES, 'berth'))
  await measure(
    { row: 0, name: 'sdk-read', title: 'read of 7 MiB by the SDK against the same request alone', bar: { at_most: 1.05 } },
    {
      reference: () => timed(async () => (await fetch(`${base}/files?path=${file}`, { headers })).arrayBuffer()),
      subject: () => timed(() => ws.files.read(file)),
    },
    { pairs: 15, warm_ups: 5 },
  )
  const source = await ws.start(['head', '-c', String(STREAM_BYTES), '/dev/zero'])
  await source.result()
  const streamed = async () => {
    let bytes = 0
    for await (const chunk of ws.command(source.id)) bytes += chunk.bytes.length
    return bytes
  }
  const whole = (read: () => Promise<number>) => () =>
    timed(async () => {
      const bytes = await read()
      if (bytes !== STREAM_BYTES) throw new Error(`${bytes} bytes were read`)
    })
  await measure(
    { row: 0, name: 'sdk-stream', title: 'stream of 64 MiB by the SDK against the same request alone', bar: { at_most: 1.05 } },
    { reference: whole(() => output(source.id)), subject: whole(streamed) },
    { pairs: 9, samples_max: 1, warm_ups: 1 },
  )
}

async function times(count: number, work: () => Promise<unknown>): Promise<void> {
  for (let n = 0; n < count; n += 1) await work()
}

async function* linesOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const bytes of (body ?? []) as AsyncIterable<Uint8Array>) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
}

async function commandRows(service: Service, file: string, folder: string): Promise<void> {
  const env = { PATH: process.env['PATH'] ?? '', BERTH_URL: service.base_url, BERTH_API_KEY: service.api_key, BERTH_CONFIG_DIR: folder }
  const run = async (words: readonly string[]) => {
    const child = spawn(process.execPath, words, { env, stdio: 'ignore' })
    const [code] = (await once(child, 'exit')) as [number | null]
    if (code !== 0) throw new Error(`${words.join(' ')} ended with ${code}`)
  }
  const api = async () => {
    const found = await new Berth({ url: service.base_url, apiKey: service.api_key }).find('bench-sdk')
    await found?.exec(TRUE)
  }
  const beyond: number[] = []
  await run([file, 'exec', 'bench-sdk', '--', 'true'])
  for (let n = 0; n < TIMES; n += 1) {
    const api_ms = await timed(api)
    beyond.push((await timed(() => run([file, 'exec', 'bench-sdk', '--', 'true']))) - api_ms)
  }
  printSeconds('cli-exec', '`berth exec -- true` beyond the calls that it makes', beyond, 0.15, 'median')
  const [node, help]: [number[], number[]] = [[], []]
  for (let n = 0; n < TIMES; n += 1) {
    node.push(await timed(() => run(['-e', '0'])))
    help.push(await timed(() => run([file, '--version'])))
  }
  printSeconds('node-start', '`node -e 0`, for comparison', node, 0.08, 'median')
  printSeconds('cli-start', '`berth --version`', help, 0.08, 'median')
}

async function pythonRow(): Promise<void> {
  const packages = process.env['BERTH_TEST_PYTHONPATH']
  if (packages === undefined) return console.log('the packages of the Python SDK are not there (BERTH_TEST_PYTHONPATH)')
  const program = 'import time; t = time.perf_counter(); from berth import Berth; print(time.perf_counter() - t)'
  const env = { ...process.env, PYTHONPATH: `${path.join(ROOT, 'sdk/python')}:${packages}` }
  const samples: number[] = []
  for (let n = 0; n < TIMES; n += 1) samples.push(Number((await promisify(execFile)('python3', ['-c', program], { env })).stdout) * 1000)
  printSeconds('python-import', '`from berth import Berth`', samples.slice(1), 0.15, 'median')
}
