import { execFile, execFileSync, spawn } from 'node:child_process'
import { createHash, randomInt } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  writeFileSync,
} from 'node:fs'
import { cp, glob, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import path from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import type { Inventory, MachineCounters } from '../../contract/internal/host-inventory.ts'
import { get, isOk } from './ask.ts'
import { freeMachineNetwork } from './machine-networks.ts'
import { isRunning, residentBytes, startTimeOf, until } from './processes.ts'
import { cleanEnvironment, TEST_ROOT } from './sweep.ts'
import { patience } from './patience.ts'

const execute = promisify(execFile)
const ROOT = path.resolve(import.meta.dirname, '../..')
const START_MS = 180_000
const STOP_MS = 150_000
const COMMAND_MS = 300_000

export type ChildName = 'api' | 'cell' | 'hostd' | 'portd' | 'postgres' | 'supervisor'

export interface ServiceOptions {
  /** Chosen by the test, such as on its own file system. */
  data_dir?: string
  /** Settings as in the configuration file. The defaults suit a small computer. */
  settings?: Record<string, unknown>
  /** `open.O4:kill9@/marker,hostd/stop.kill:throw`; see service/lib/failpoints.ts. */
  failpoints?: string
}

/** A complete installation with real machines. No packet of a guest leaves the computer. */
export interface Service {
  base_url: string
  cell_endpoint: string
  /** Of the project `default` in the organization `default`, with all tools. */
  api_key: string
  instance: string
  data_dir: string
  run_dir: string
  reference: string
  runsc: string
  layer: string
  database_url(): string
  /** Removes everything that the installation made. @returns what `clean --data` left in the data directory */
  stop(): Promise<string[]>
  /** By SIGTERM; machines keep running. */
  stopProcesses(): Promise<void>
  /** Machines keep running. */
  restart(settings?: Record<string, unknown>): Promise<void>
  pid(child: ChildName): number
  /** Returns when the process is dead. The supervisor restarts every child, but not itself. */
  kill9(child: ChildName): Promise<void>
  /** Removes all processes, machines, mounts, networks and files below /run, then starts again. */
  reboot(): Promise<void>
  /** Also restarts a killed supervisor. */
  ready(): Promise<void>
  admin(...args: string[]): Promise<string>
  inventory(): Promise<Inventory>
  counters(workspace_id: string): Promise<MachineCounters>
  query<T extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<T[]>
  machine(workspace_id: string): Promise<{ sandbox: string; runsc_root: string }>
  kill_machine(workspace_id: string): Promise<void>
  slots_ready(): Promise<void>
  /** Waits until no more warm sandboxes will get a recent template's disk. */
  warm_disks_ready(): Promise<void>
  memory_bytes(child: ChildName): Promise<number>
  metrics(child: 'api' | 'cell'): Promise<Map<string, number>>
  metric_names(): Promise<string[]>
  /** For this process, because only hostd's mount namespace has the pool mounted. */
  pool_path(): string
  pool_file(pattern: string): { read(): Promise<Buffer>; write(bytes: Buffer): Promise<void> }
}

export async function startService(options: ServiceOptions = {}): Promise<Service> {
  mkdirSync(TEST_ROOT, { recursive: true })
  const folder = mkdtempSync(path.join(TEST_ROOT, 'service-'))
  chmodSync(folder, 0o755) // the database's user must pass through this folder
  const data_dir = options.data_dir ?? path.join(folder, 'data')
  writeFileSync(path.join(folder, 'owner'), JSON.stringify({ pid: process.pid, start_time: startTimeOf(process.pid), data_dir }))
  mkdirSync(data_dir, { recursive: true })
  const settings = { ...(await defaults()), ...options.settings }
  const instance = createHash('sha256').update(realpathSync(data_dir)).digest('hex').slice(0, 4)
  const at: Place = { folder, data_dir, run_dir: `/run/berth/${instance}`, instance, settings, failpoints: options.failpoints }
  writeSettings(at)
  // A test that fails or is ended still removes its installation. The runner removes that of a killed test.
  const sweep = () => {
    try {
      cleanSync(at)
    } catch (error) {
      process.stderr.write(`${String(error)}\n`) // a throw here would keep the process from ending
    }
  }
  // Prepended, because it must run before the removal of a network that this installation uses (internet.ts).
  process.prependOnceListener('exit', sweep)
  for (const signal of ['SIGTERM', 'SIGINT'] as const) if (process.listenerCount(signal) === 0) process.once(signal, () => process.exit(1))
  try {
    await start(at)
    return serviceOf(at, () => void process.off('exit', sweep))
  } catch (error) {
    process.off('exit', sweep)
    cleanSync(at)
    throw error
  }
}

/** @returns an installation that another process started and will stop */
export function attachService(reference: string): Service {
  return serviceOf(JSON.parse(reference) as Place, () => undefined)
}

interface Place {
  folder: string
  data_dir: string
  run_dir: string
  instance: string
  settings: Awaited<ReturnType<typeof defaults>> & Record<string, unknown>
  failpoints: string | undefined
}

function serviceOf(at: Place, released: () => void): Service {
  const config = (name: string) =>
    JSON.parse(readFileSync(path.join(at.run_dir, 'config', `${name}.json`), 'utf8')) as Record<string, unknown>
  const hostd = config('hostd') as { runsc: string; slots: { count: number }; shells: { count: number } }
  const { templates, database_url } = config('bootstrap') as { templates: [{ digest: string }]; database_url: string }
  const pool_path = () => `/proc/${pidOf(at, 'hostd')}/root${at.run_dir}/pool`
  const machine = async (workspace_id: string) => {
    const found = (await inventoryOf(at)).machines.find((each) => each.subject.id === workspace_id)
    if (found === undefined) throw new Error(`Workspace ${workspace_id} has no machine`)
    return { sandbox: `berth-${at.instance}-${found.slot}`, runsc_root: path.join(at.run_dir, 'runsc') }
  }
  return {
    base_url: `http://${at.settings.api_listen}`,
    cell_endpoint: `http://${at.settings.cell_listen}`,
    api_key: readFileSync(path.join(at.data_dir, 'keys', 'first-api-key'), 'utf8').trim(),
    instance: at.instance,
    data_dir: at.data_dir,
    run_dir: at.run_dir,
    reference: JSON.stringify(at),
    runsc: hostd.runsc,
    database_url: () => database_url,
    layer: path.join(at.data_dir, 'layers', `${templates[0].digest}.erofs`),
    async stop() {
      await stopSupervisor(at)
      await keepLogs(at)
      await execute(process.execPath, [path.join(ROOT, 'tools/clean.mjs'), '--data-dir', at.data_dir, '--data'], {
        env: cleanEnvironment(),
        timeout: patience(COMMAND_MS),
      })
      const left = existsSync(at.data_dir) ? readdirSync(at.data_dir) : []
      for (const folder of [at.data_dir, at.folder]) await rm(folder, { recursive: true, force: true })
      released()
      return left
    },
    stopProcesses: () => stopSupervisor(at),
    async restart(settings = {}) {
      await stopSupervisor(at)
      Object.assign(at.settings, settings)
      writeSettings(at)
      await start(at)
    },
    pid: (child) => pidOf(at, child),
    async kill9(child) {
      const pid = pidOf(at, child)
      process.kill(pid, 'SIGKILL')
      await until(`${child} is dead`, STOP_MS, () => !isRunning(pid))
    },
    async reboot() {
      // The supervisor ends first, so that it restarts nothing.
      const pids = (['supervisor', 'portd', 'cell', 'api', 'hostd', 'postgres'] as const).map((child) => pidOf(at, child)).filter(isRunning)
      for (const pid of pids) process.kill(pid, 'SIGKILL')
      await until('every process is dead', STOP_MS, () => !pids.some(isRunning))
      await execute(process.execPath, [path.join(ROOT, 'tools/clean.mjs'), '--data-dir', at.data_dir], {
        env: cleanEnvironment(),
        timeout: patience(COMMAND_MS),
      })
      await start(at)
      await until('everything serves', START_MS, () => serves(at))
    },
    async ready() {
      if (!isRunning(pidOf(at, 'supervisor'))) await start(at)
      await until('everything serves', START_MS, () => serves(at))
    },
    async admin(...args) {
      const command = [path.join(ROOT, 'tools/admin.mjs'), '--data-dir', at.data_dir, ...args]
      return (await execute(process.execPath, command, { env: cleanEnvironment(), timeout: patience(COMMAND_MS) })).stdout
    },
    inventory: () => inventoryOf(at),
    async counters(workspace_id) {
      const { machines } = await askHostd<{ machines: MachineCounters[] | null }>(at, '/stats')
      const found = machines?.find((each) => each.subject.id === workspace_id)
      if (found === undefined) throw new Error(`Workspace ${workspace_id} has no machine that counts`)
      return found
    },
    async query<T extends pg.QueryResultRow>(text: string, values: unknown[] = []) {
      const db = new pg.Client({ connectionString: database_url, connectionTimeoutMillis: 30_000 })
      db.on('error', () => undefined) // the query reports it
      try {
        await db.connect()
        return (await db.query<T>(text, values)).rows
      } finally {
        await db.end().catch(() => undefined) // the server may be gone
      }
    },
    machine,
    async kill_machine(workspace_id) {
      const { sandbox } = await machine(workspace_id)
      const pids = (await execute('pgrep', ['--full', `^runsc-sandbox .*${sandbox}( |$)`])).stdout.trim().split('\n').map(Number)
      for (const pid of pids) process.kill(pid, 'SIGKILL')
    },
    async slots_ready() {
      await until('slots and shells wait', START_MS, async () => {
        const { slots, shells } = await inventoryOf(at)
        return slots >= hostd.slots.count && shells >= hostd.shells.count
      })
    },
    async warm_disks_ready() {
      const { count } = hostd.slots
      await until('slots are fitted', START_MS, async () => (await inventoryOf(at)).fitted_slots >= Math.max(count - 1, Math.min(count, 1)))
    },
    memory_bytes: (child) => Promise.resolve(residentBytes(pidOf(at, child))),
    async metrics(child) {
      const lines = (await metricsText(at.settings[`${child}_ops_listen`]))
        .split('\n')
        .filter((line) => line !== '' && !line.startsWith('#'))
      return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]))
    },
    async metric_names() {
      const texts = await Promise.all([at.settings.api_ops_listen, at.settings.cell_ops_listen].map(metricsText))
      return [...texts.join('\n').matchAll(/^# TYPE ([^ ]+) /gm)].map(([, name = '']) => name)
    },
    pool_path,
    pool_file: (pattern) => ({
      read: async () => readFile(await onlyMatch(pool_path(), pattern)),
      write: async (bytes) => writeFile(await onlyMatch(pool_path(), pattern), bytes),
    }),
  }
}

async function defaults() {
  const [api, cell, api_ops, cell_ops, ports] = await freePorts(5)
  return {
    api_listen: `127.0.0.1:${api}`,
    cell_listen: `127.0.0.1:${cell}`,
    api_ops_listen: `127.0.0.1:${api_ops}`,
    cell_ops_listen: `127.0.0.1:${cell_ops}`,
    ports_listen: `127.0.0.1:${ports}`,
    machine_network: freeMachineNetwork(),
    uplink: 'none',
    pool_image_gib: 6,
    data_reserve_gib: 0.25, // independent of the computer's disk
    slots: 1,
    shells: 1,
    freeze_after_seconds: 0,
    hibernate_after_seconds: 0,
  }
}

function writeSettings({ data_dir, settings }: Place): void {
  writeFileSync(path.join(data_dir, 'config.json'), JSON.stringify(settings, null, 2))
}

/** Below the ephemeral range, from which a connection could take one before the listener starts. */
export async function freePorts(count: number): Promise<number[]> {
  const [given_from = 32_768] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split('\t').map(Number)
  const ports = new Set<number>()
  while (ports.size < count) {
    const port = randomInt(10_000, Math.max(given_from, 11_000))
    if (await isFree(port)) ports.add(port)
  }
  return [...ports]
}

function isFree(port: number): Promise<boolean> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

async function start(at: Place): Promise<void> {
  const log = path.join(at.folder, 'start.log')
  const output = openSync(log, 'w')
  const flags = ['--data-dir', at.data_dir, ...(at.failpoints === undefined ? [] : ['--failpoints', at.failpoints])]
  // Own process group: a terminal signal ends the test, which ends this program.
  const child = spawn(process.execPath, [path.join(ROOT, 'tools/start.mjs'), ...flags], {
    env: cleanEnvironment(),
    detached: true,
    stdio: ['ignore', output, output],
  })
  closeSync(output)
  child.unref()
  let exit_code: number | null = null
  child.once('exit', (code) => (exit_code = code ?? -1))
  await until('the service starts', START_MS, () => {
    const text = readFileSync(log, 'utf8')
    if (exit_code !== null) throw new Error(`The service did not start (${exit_code}):\n${text}`)
    return text.includes('Berth serves at')
  }).catch((cause: unknown) => {
    throw new Error(`The service did not start:\n${readFileSync(log, 'utf8')}`, { cause })
  })
}

async function stopSupervisor(at: Place): Promise<void> {
  if (!existsSync(path.join(at.data_dir, 'supervisor.lock'))) return
  const pid = pidOf(at, 'supervisor')
  if (!isRunning(pid)) return
  process.kill(pid, 'SIGTERM')
  await until('the supervisor ends', STOP_MS, () => !isRunning(pid))
}

/** Copies the logs of the installation to the folder that BERTH_TEST_LOGS names. */
async function keepLogs(at: Place): Promise<void> {
  const folder = process.env['BERTH_TEST_LOGS']
  if (folder === undefined) return
  await cp(path.join(at.data_dir, 'logs'), path.join(folder, at.instance), { recursive: true })
}

function cleanSync(at: Place): void {
  execFileSync(process.execPath, [path.join(ROOT, 'tools/clean.mjs'), '--data-dir', at.data_dir, '--data'], {
    env: cleanEnvironment(),
    timeout: patience(COMMAND_MS),
    stdio: 'ignore',
  })
  execFileSync('rm', ['-rf', '--one-file-system', at.data_dir, at.folder])
}

function pidOf(at: Place, child: ChildName): number {
  if (child === 'supervisor') return Number(readFileSync(path.join(at.data_dir, 'supervisor.lock'), 'utf8').trim())
  return (JSON.parse(readFileSync(path.join(at.run_dir, 'children', `${child}.json`), 'utf8')) as { pid: number }).pid
}

async function serves(at: Place): Promise<boolean> {
  if (!(['postgres', 'hostd', 'api', 'cell', 'portd'] as const).every((child) => isRunning(pidOf(at, child)))) return false
  const answers = await Promise.all([
    isOk({ socketPath: hostdSocket(at), path: '/healthz' }),
    ...[at.settings.api_ops_listen, at.settings.cell_ops_listen].map((listen) => {
      const [host = '', port] = listen.split(':')
      return isOk({ host, port: Number(port), path: '/readyz' })
    }),
  ])
  return answers.every((answer) => answer)
}

function hostdSocket(at: Place): string {
  return path.join(at.run_dir, 'hostd', 'socket')
}

async function inventoryOf(at: Place): Promise<Inventory> {
  // Go encodes an empty slice as null.
  const { machines, files, ...rest } = await askHostd<Omit<Inventory, 'machines' | 'files'> & Partial<Inventory>>(at, '/inventory')
  return { ...rest, machines: machines ?? [], files: files ?? [] }
}

async function metricsText(listen: string): Promise<string> {
  const [host = '', port] = listen.split(':')
  return (await get({ host, port: Number(port), path: '/metrics' })).text
}

async function askHostd<T>(at: Place, path: string): Promise<T> {
  const { status, text } = await get({ socketPath: hostdSocket(at), path })
  if (status !== 200) throw new Error(`hostd answered ${status}: ${text}`)
  return JSON.parse(text) as T
}

async function onlyMatch(folder: string, pattern: string): Promise<string> {
  const found: string[] = []
  for await (const each of glob(pattern, { cwd: folder })) found.push(each)
  const [match] = found
  if (found.length !== 1 || match === undefined) throw new Error(`${pattern} names ${found.length} files of the pool`)
  return path.join(folder, match)
}
