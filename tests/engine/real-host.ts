import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { createHash, randomBytes, randomInt } from 'node:crypto'
import { copyFileSync, createReadStream, globSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Machine } from '../../contract/internal/host-inventory.ts'
import { connectHostd } from '../../service/cell/host/hostd-client.ts'
import { until } from '../support/processes.ts'
import type { Guest, Harness } from './conformance.ts'
import { patience } from '../support/patience.ts'

type Variable = 'BERTH_TEST_HOSTD' | 'BERTH_TEST_AGENT' | 'BERTH_TEST_RUNSC' | 'BERTH_TEST_LAYER'

/** Set-up sets these variables for `npm test`. Without one the test fails, because a skip would look like a pass. */
function variable(name: Variable): string {
  const value = process.env[name]
  if (value === undefined) throw new Error(`${name} is not set: run this by npm test, as root`)
  return value
}

/** close() removes the harness's directory, pool, namespaces and cgroups. */
export async function openRealHost(): Promise<Harness & { layers_dir: string }> {
  const dir = mkdtempSync('/tmp/berth-engine-')
  const layer = await addLayer(dir)
  const config = join(dir, 'config.json')
  writeFileSync(config, JSON.stringify(configOf(dir)))
  const child = startHostd(dir, config)
  const socket = join(dir, 'hostd.sock')
  const host = connectHostd(socket)
  const close = async () => {
    await host.close()
    await end(child)
    execFileSync(variable('BERTH_TEST_HOSTD'), ['clean', '--config', config], { timeout: patience(300_000) })
    rmSync(dir, { recursive: true, force: true })
  }
  try {
    await answers(child, dir, () => host.inventory())
  } catch (error) {
    await close()
    throw error
  }
  return {
    host,
    layers: [layer],
    layers_dir: join(dir, 'layers'),
    guest: openGuest,
    kill: async (machine) => killSandbox(dir, machine),
    close,
  }
}

function configOf(dir: string): object {
  return {
    instance: randomBytes(2).toString('hex'),
    data_dir: join(dir, 'data'),
    run_dir: join(dir, 'run'),
    socket: join(dir, 'hostd.sock'),
    socket_uid: 0,
    socket_gid: 0,
    runsc: variable('BERTH_TEST_RUNSC'),
    agent: variable('BERTH_TEST_AGENT'),
    machine_network: `10.${randomInt(130, 190)}.${randomInt(64) * 4}.0/22`,
    uplink: 'none',
    resolvers: [],
    pool: { image: join(dir, 'pool.img'), mount: join(dir, 'pool'), size_bytes: 3 * 2 ** 30, reserve_bytes: 128 * 2 ** 20 },
    layers_dir: join(dir, 'layers'),
    slots: { count: 1, cpu_millis: 1000, memory_mib: 256 },
    shells: { count: 1 },
    capacity: { cpu_millis: 4000, memory_mib: 2048 },
    memory_headroom_mib: 256,
  }
}

async function addLayer(dir: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(variable('BERTH_TEST_LAYER')), hash)
  const digest = hash.digest('hex')
  mkdirSync(join(dir, 'layers'))
  copyFileSync(variable('BERTH_TEST_LAYER'), join(dir, 'layers', `${digest}.erofs`))
  return digest
}

function startHostd(dir: string, config: string): ChildProcess {
  const log = openSync(join(dir, 'hostd.log'), 'a')
  return spawn(variable('BERTH_TEST_HOSTD'), ['--config', config], { stdio: ['ignore', log, log] })
}

async function answers(child: ChildProcess, dir: string, ask: () => Promise<unknown>): Promise<void> {
  for (const deadline_ms = performance.now() + patience(120_000); ;) {
    try {
      await ask()
      return
    } catch (cause) {
      if (child.exitCode === null && performance.now() < deadline_ms) await new Promise((resolve) => setTimeout(resolve, 50))
      else throw new Error(`hostd did not start: ${readFileSync(join(dir, 'hostd.log'), 'utf8').slice(-2000)}`, { cause })
    }
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return
  const { promise, resolve } = Promise.withResolvers<void>()
  child.once('exit', () => resolve())
  child.kill('SIGTERM')
  await promise
}

function killSandbox(dir: string, machine: Machine): void {
  for (const path of globSync('/proc/[0-9]*/cmdline')) {
    const line = commandLine(path)
    const [program = '', ...args] = line.split('\0')
    if (!program.endsWith('runsc-sandbox') || !line.includes(dir) || !args.some((arg) => arg.includes(machine.slot))) continue
    process.kill(Number(path.split('/')[2]), 'SIGKILL')
    return
  }
  throw new Error(`There is no sandbox of slot ${machine.slot}`)
}

function commandLine(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return '' // it ended while the list was being read
  }
}

const COUNTER = 'i=0; while :; do i=$((i+1)); echo $i > /dev/shm/next; mv /dev/shm/next /dev/shm/count; sleep 0.02; done'

async function openGuest(machine: Machine): Promise<Guest> {
  const ask = async (method: string, path: string, body?: string | object): Promise<Response> =>
    fetch(`http://${machine.address}${path}`, {
      method,
      headers: { authorization: `Bearer ${machine.agent_key}`, 'x-berth-epoch': String(machine.epoch), connection: 'close' },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(60_000),
    })
  const read = async (path: string) => {
    const response = await ask('GET', `/files?path=${encodeURIComponent(path)}`)
    if (response.status === 404) return null
    if (!response.ok) throw new Error(`GET ${path}: ${response.status} ${await response.text()}`)
    return response.text()
  }
  const write = async (path: string, text: string) => {
    const response = await ask('PUT', `/files?path=${encodeURIComponent(path)}`, text)
    if (!response.ok) throw new Error(`PUT ${path}: ${response.status} ${await response.text()}`)
  }
  const startCounter = async (session_id: string): Promise<string> => {
    const response = await ask('POST', '/exec', {
      session_id,
      fingerprint: 'counter',
      argv: ['/bin/sh', '-c', COUNTER],
      cwd: '/',
      user: 'root',
      env: {},
    })
    if (!response.ok) throw new Error(`POST /exec: ${response.status} ${await response.text()}`)
    return ((await response.json()) as { state: string }).state
  }
  // After a restore the counter's session still runs. A start from a disk has lost it, so a new session counts from zero.
  if ((await startCounter('counter')) !== 'running') await startCounter(`counter-${machine.epoch}`)
  const count = async () => Number((await read('/dev/shm/count')) ?? 0)
  await until('the counter counts', 60_000, async () => (await count()) > 0)
  return {
    count,
    readFile: read,
    writeFile: write,
    readMemory: () => read('/dev/shm/canary'),
    writeMemory: (text) => write('/dev/shm/canary', text),
  }
}
