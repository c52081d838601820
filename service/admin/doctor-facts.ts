import { readFile, readdir, statfs } from 'node:fs/promises'
import http from 'node:http'
import { release } from 'node:os'
import path from 'node:path'
import { openDatabase } from '../db/database.ts'
import { readStored, type StoredFacts } from './doctor-store.ts'

/** Where an installation's parts are; tools/admin.mjs says it. */
export interface DoctorPlaces {
  database_url: string
  embedded: boolean
  instance: string
  data_dir: string
  run_dir: string
  hostd_socket: string
  api_ops: { host: string; port: number }
  cell_ops: { host: string; port: number }
  cell_name: string
  slots: number
  shells: number
}

/** What hostd's inventory says, as far as the doctor reads it. */
export interface HostFacts {
  engine: string
  engines: string[]
  machines: { workspace_id: string; epoch: number; state: string; slot: string }[]
  workspaces: { workspace_id: string; disks: string[]; checkpoints: { checkpoint_id: string; engine: string }[] }[]
  slots: number
  shells: number
  capacity: { cpu_millis: number; memory_mib: number; disk_gib: number; pool_bytes: number; pool_free_bytes: number; reserve_bytes: number }
}

/** One look at everything. null: it does not answer. */
export interface Facts {
  kernel: { release: string; cgroup: 'v1' | 'v2'; filesystems: string[]; seccomp: boolean; loop: boolean; user_is_root: boolean }
  data_free_bytes: number
  data_bytes: number
  /** Of the supervisor and each of its children: whether the process of its file runs. */
  processes: Record<string, boolean>
  api_ready: boolean
  cell_ready: boolean
  host: HostFacts | null
  leftovers: { found: string[]; removed_total: number } | null
  stored: StoredFacts | null
  clock_at: Date
}

const ANSWER_MS = 5000
const CGROUP2_MAGIC = 0x63677270

export async function gather(places: DoctorPlaces): Promise<Facts> {
  const { bsize, bavail, blocks } = await statfs(places.data_dir)
  return {
    kernel: await kernel(),
    data_free_bytes: bsize * bavail,
    data_bytes: bsize * blocks,
    processes: await processes(places),
    api_ready: await answers({ ...places.api_ops, path: '/readyz' }),
    cell_ready: await answers({ ...places.cell_ops, path: '/readyz' }),
    host: (await ask({ socketPath: places.hostd_socket, path: '/inventory' })) as HostFacts | null,
    leftovers: (await ask({ socketPath: places.hostd_socket, path: '/leftovers' })) as Facts['leftovers'],
    stored: await stored(places.database_url),
    clock_at: new Date(),
  }
}

async function kernel(): Promise<Facts['kernel']> {
  const text = async (file: string) => readFile(file, 'utf8').catch(() => '') // not there: the feature is not, either
  const filesystems = (await text('/proc/filesystems')).split('\n').map((line) => line.split('\t').at(-1) ?? '')
  return {
    release: release(),
    cgroup: (await statfs('/sys/fs/cgroup')).type === CGROUP2_MAGIC ? 'v2' : 'v1',
    filesystems: filesystems.filter((name) => name !== ''),
    seccomp: /^Seccomp:/m.test(await text('/proc/self/status')),
    loop: (await text('/proc/devices')).includes(' loop'),
    user_is_root: process.getuid?.() === 0,
  }
}

async function processes({ data_dir, run_dir, embedded }: DoctorPlaces): Promise<Record<string, boolean>> {
  const found: Record<string, boolean> = { supervisor: await runs(path.join(data_dir, 'supervisor.lock'), Number) }
  const names = ['hostd', 'api', 'cell', ...(embedded ? ['postgres'] : [])]
  const pidOf = (text: string) => (JSON.parse(text) as { pid: number }).pid
  for (const name of names) found[name] = await runs(path.join(run_dir, 'children', `${name}.json`), pidOf)
  return found
}

async function runs(file: string, pidOf: (text: string) => number): Promise<boolean> {
  try {
    const pid = pidOf((await readFile(file, 'utf8')).trim())
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
    return !stat.slice(stat.lastIndexOf(')') + 2).startsWith('Z') && (await readdir(`/proc/${pid}`)).length > 0
  } catch {
    return false // no file, or no such process
  }
}

async function stored(url: string): Promise<StoredFacts | null> {
  const db = openDatabase({ url, role: null, connections_max: 1, application_name: 'berth-doctor' })
  try {
    return await readStored(db)
  } catch {
    return null // it does not answer, or holds none of our tables
  } finally {
    await db.destroy()
  }
}

async function answers(options: http.RequestOptions): Promise<boolean> {
  return (await ask(options)) !== null
}

function ask(options: http.RequestOptions): Promise<unknown> {
  return new Promise((resolve) => {
    const request = http.get({ ...options, agent: false, timeout: ANSWER_MS }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      response.on('end', () => resolve(response.statusCode === 200 ? withLists(JSON.parse(text)) : null))
      response.on('error', () => resolve(null))
    })
    request.on('error', () => resolve(null))
    request.on('timeout', () => request.destroy(new Error('No answer')))
  })
}

const LISTS = new Set(['engines', 'machines', 'workspaces', 'disks', 'checkpoints', 'found'])

/** Go writes an empty list of none as null. */
function withLists(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withLists)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, inner === null && LISTS.has(key) ? [] : withLists(inner)]))
}
