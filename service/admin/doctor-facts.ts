import { readFile, readdir, statfs } from 'node:fs/promises'
import http from 'node:http'
import { release } from 'node:os'
import path from 'node:path'
import type {
  CheckpointInfo,
  FirewallFound,
  Firewalls,
  HostCapacity,
  Inventory,
  Leftovers,
  Machine,
  SubjectFiles,
} from '../../contract/internal/host-inventory.ts'
import type { Subject } from '../../contract/internal/host-subject.ts'
import { sealingFolder } from '../core/keys/ring/sealing-folder.ts'
import { openDatabase } from '../db/database.ts'
import { withLists } from '../lib/null-lists.ts'
import type { HostCounters } from './doctor-usage.ts'
import { readStored, type StoredFacts } from './doctor-store.ts'

export interface DoctorPaths {
  database_url: string
  embedded: boolean
  instance: string
  data_dir: string
  /** Bytes that must remain free; absent: none. */
  data_reserve_bytes?: number
  run_dir: string
  hostd_socket: string
  api_ops: { host: string; port: number }
  cell_ops: { host: string; port: number }
  cell_name: string
  slots: number
  shells: number
  /** Empty: an SMTP server sends mail. */
  mail_directory?: string
}

export interface HostFacts extends HostAnswer {
  machines: (HostAnswer['machines'][number] & { workspace_id: string })[]
  workspaces: (HostAnswer['files'][number] & { workspace_id: string })[]
}

interface HostAnswer extends Pick<
  Inventory,
  'installation' | 'engine' | 'engines' | 'engine_refused' | 'volumes' | 'slots' | 'shells' | 'resolver'
> {
  machines: Pick<Machine, 'subject' | 'epoch' | 'state' | 'slot' | 'engine_refused'>[]
  files: (Pick<SubjectFiles, 'subject' | 'disks' | 'quarantined'> & {
    checkpoints: Pick<CheckpointInfo, 'checkpoint_id' | 'engine' | 'memory_refused'>[]
  })[]
  capacity: Omit<HostCapacity, 'headroom_mib'>
}

/** A source that does not answer is null. */
export interface Facts {
  kernel: { release: string; cgroup: 'v1' | 'v2'; filesystems: string[]; seccomp: boolean; loop: boolean; user_is_root: boolean }
  data_free_bytes: number
  data_bytes: number
  processes: Record<string, boolean>
  api_ready: boolean
  cell_ready: boolean
  host: HostFacts | null
  leftovers: Leftovers | null
  firewalls: FirewallFound[]
  layers: { size_bytes: number }[] | null
  stored: StoredFacts | null
  clock_at: Date
  /** Read after the database, so that counters are never below its rows. */
  counters: HostCounters[] | null
  sealing_key_files: string[]
}

const ANSWER_MS = 5000
const CGROUP2_MAGIC = 0x63677270

export async function gather(places: DoctorPaths): Promise<Facts> {
  const { bsize, bavail, blocks } = await statfs(places.data_dir)
  return {
    kernel: await kernel(),
    data_free_bytes: bsize * bavail,
    data_bytes: bsize * blocks,
    processes: await processes(places),
    api_ready: await answers({ ...places.api_ops, path: '/readyz' }),
    cell_ready: await answers({ ...places.cell_ops, path: '/readyz' }),
    host: hostFacts((await ask({ socketPath: places.hostd_socket, path: '/inventory' })) as HostAnswer | null),
    leftovers: (await ask({ socketPath: places.hostd_socket, path: '/leftovers' })) as Facts['leftovers'],
    firewalls: (await firewallsOf(places)) ?? [],
    layers:
      ((await ask({ socketPath: places.hostd_socket, path: '/layers' })) as { layers: { size_bytes: number }[] } | null)?.layers ?? null,
    stored: await stored(places.database_url),
    clock_at: new Date(),
    counters: ((await ask({ socketPath: places.hostd_socket, path: '/stats' })) as { machines: HostCounters[] } | null)?.machines ?? null,
    sealing_key_files: (await sealingFolder(path.join(places.data_dir, 'keys', 'cell'), null).files()).map(({ key_id }) => key_id),
  }
}

export async function firewallsOf({ hostd_socket }: DoctorPaths): Promise<FirewallFound[] | null> {
  const answer = (await ask({ socketPath: hostd_socket, path: '/firewalls' })) as Firewalls | null
  return answer === null ? null : answer.found
}

async function kernel(): Promise<Facts['kernel']> {
  const text = async (file: string) => readFile(file, 'utf8').catch(() => '') // a missing file means that the feature is missing
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

async function processes({ data_dir, run_dir, embedded }: DoctorPaths): Promise<Record<string, boolean>> {
  const found: Record<string, boolean> = { supervisor: await runs(path.join(data_dir, 'supervisor.lock'), Number) }
  const names = ['hostd', 'api', 'cell', 'portd', ...(embedded ? ['postgres'] : [])]
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
    return false // no file, or no process with this id
  }
}

async function stored(url: string): Promise<StoredFacts | null> {
  const db = openDatabase({ url, role: null, connections_max: 1, application_name: 'berth-doctor' })
  try {
    return await readStored(db)
  } catch {
    return null // unreachable, or without Berth's tables
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
      response.on('end', () => resolve(response.statusCode === 200 ? answerIn(text) : null))
      response.on('error', () => resolve(null))
    })
    request.on('error', () => resolve(null))
    request.on('timeout', () => request.destroy(new Error('No answer')))
  })
}

/** Returns null instead of throwing: an error in the listener would end the doctor. */
function answerIn(text: string): unknown {
  try {
    return withLists(JSON.parse(text), LISTS)
  } catch {
    return null
  }
}

const LISTS = new Set(['engines', 'machines', 'files', 'disks', 'checkpoints', 'found', 'quarantined', 'volumes'])

function hostFacts(told: HostAnswer | null): HostFacts | null {
  if (told === null) return null
  const ofWorkspaces = <T extends { subject: Subject }>(list: T[]) =>
    list.filter(({ subject }) => subject.kind === 'workspace').map((one) => ({ ...one, workspace_id: one.subject.id }))
  return { ...told, machines: ofWorkspaces(told.machines), workspaces: ofWorkspaces(told.files) }
}
