import { randomBytes, randomInt } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { KEY_COMMANDS } from '../../service/admin/keys.ts'
import type { Context } from '../../service/admin/command.ts'
import { byOperator } from '../../service/admin/operator.ts'
import { ORGANIZATION_COMMANDS } from '../../service/admin/organizations.ts'
import { mutate } from '../../service/core/changes/mutate.ts'
import { TOOLS } from '../../contract/route.ts'
import { openDatabase } from '../../service/db/database.ts'
import { systemClock } from '../../service/lib/clock.ts'
import { createIds } from '../../service/lib/ids.ts'
import { createClient } from './client.ts'
import { isAlive } from '../../tools/setup/alive.mjs'
import { startTimeOf } from './processes.ts'
import { attachService, type Service, startService } from './service.ts'

export const SHARED_SERVICES_VARIABLE = 'BERTH_TEST_SHARED_SERVICES'
const SERVICES = 2
/** Two files on one installation find a warm sandbox each, and never wait for capacity. */
const SETTINGS = { slots: 2, shells: 1, overcommit: 64, memory_overcommit: 8, disk_overcommit: 500, pool_image_gib: 10 }
/** Shared resources, which an operator's command may not name. */
const EVERYBODYS = ['doctor', 'plan', 'default', 'unlimited']

const MAY = [
  'base_url', 'cell_endpoint', 'instance', 'data_dir', 'run_dir', 'runsc', 'layer', 'query', 'memory_bytes',
] as const // prettier-ignore

/**
 * Each test file has its own organization, and must not affect others. A file that kills, restarts, fills or counts the whole installation
 * must start its own.
 */
export interface SharedService extends Pick<Service, (typeof MAY)[number]> {
  organization: string
  api_key: string
  /** Of this organization only. */
  inventory: Service['inventory']
  kill_machine: Service['kill_machine']
  pool_file(workspace_id: string, pattern: string): ReturnType<Service['pool_file']>
  /** Throws if the command names a shared resource. */
  admin: Service['admin']
  /** Deletes the organization's workspaces. Stops the installation only if this file started it. */
  stop(): Promise<void>
}

export async function startSharedServices(count = SERVICES): Promise<{ env: Record<string, string>; stop(): Promise<void> }> {
  const started = await Promise.allSettled(Array.from({ length: count }, () => startService({ settings: SETTINGS })))
  const services = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const stop = async () => void (await Promise.all(services.map((service) => service.stop())))
  const failed = started.find((one) => one.status === 'rejected')
  if (failed !== undefined) {
    await stop()
    throw failed.reason
  }
  return { env: { [SHARED_SERVICES_VARIABLE]: JSON.stringify(services.map(({ reference }) => reference)) }, stop }
}

/** A new installation if the file runs alone. */
export async function sharedService(): Promise<SharedService> {
  const given = process.env[SHARED_SERVICES_VARIABLE]
  if (given === undefined) {
    const service = await startService({ settings: SETTINGS })
    const user = await becomeUser(service)
    return viewOf(service, user, async () => void (await service.stop()))
  }
  const service = leastUsed((JSON.parse(given) as string[]).map(attachService))
  await removeEndedUsers(service)
  const user = await becomeUser(service)
  return viewOf(service, user, () => leave(service, user))
}

interface User {
  pid: number
  start_time: number | undefined
  organization: string
  organization_id: string
  api_key: string
}

/** Admin commands run in this process, because another would take a second each. */
async function becomeUser(service: Service): Promise<User> {
  const file = path.basename(process.argv[1] ?? 'test').replace(/\.test\.ts$/, '')
  const slug = `${file}-${randomBytes(4).toString('hex')}`
  const lines: string[] = []
  const output = { line: (text: string) => void lines.push(text), note: () => undefined }
  const db = openDatabase({ url: service.database_url(), role: null, connections_max: 1, application_name: 'berth-test' })
  const run = async (name: string, ...argv: string[]) => {
    const command = ORGANIZATION_COMMANDS[name] ?? KEY_COMMANDS[name]
    const at = { clock: systemClock, ids: createIds(systemClock) }
    const change: Context['change'] = (action, work, subject) => mutate(db, byOperator(at), action, work, subject)
    await command?.run(argv, { db, output, change, ...at })
    return lines.at(-1) ?? ''
  }
  try {
    const organization_id = await run('organization create', slug)
    await run('project create', slug, '--organization', slug)
    const api_key = await run('key create', '--organization', slug, '--project', slug, '--tools', TOOLS.join(','))
    const user = { pid: process.pid, start_time: startTimeOf(process.pid), organization: slug, organization_id, api_key }
    mkdirSync(usersOf(service), { recursive: true })
    writeFileSync(path.join(usersOf(service), slug), JSON.stringify(user))
    return user
  } finally {
    await db.destroy()
  }
}

const usersOf = (service: Service) => path.join(service.run_dir, 'test-users')

function readUsers(service: Service): User[] {
  try {
    return readdirSync(usersOf(service)).map((name) => JSON.parse(readFileSync(path.join(usersOf(service), name), 'utf8')) as User)
  } catch {
    return [] // there is no user yet, or one is being removed
  }
}

function leastUsed(services: Service[]): Service {
  const users = services.map((service) => readUsers(service).filter(isAlive).length)
  const least = services.filter((_, at) => users[at] === Math.min(...users))
  const chosen = least[randomInt(least.length)]
  if (chosen === undefined) throw new Error(`${SHARED_SERVICES_VARIABLE} names no installation`)
  return chosen
}

/** Removes the workspaces of killed files, which would use capacity that later files need. */
async function removeEndedUsers(service: Service): Promise<void> {
  for (const user of readUsers(service).filter((user) => !isAlive(user))) await leave(service, user)
}

async function leave(service: Service, { organization, api_key }: User): Promise<void> {
  const client = createClient(service.base_url, api_key)
  const { body } = await client.api<{ data: { id: string }[] }>('/v1/workspaces?limit=200&lifetime=any')
  await Promise.all(body.data.map(({ id }) => client.operate(`/v1/workspaces/${id}`, { method: 'DELETE' })))
  rmSync(path.join(usersOf(service), organization), { force: true })
}

function viewOf(service: Service, { organization, organization_id, api_key }: User, stop: () => Promise<void>): SharedService {
  const owned = async () => {
    const rows = await service.query<{ id: string }>('select id from workspaces where organization_id = $1', [organization_id])
    return new Set(rows.map(({ id }) => id))
  }
  const isOwn = async (workspace_id: string) => {
    if (!(await owned()).has(workspace_id)) throw new Error(`Workspace ${workspace_id} is another file's`)
  }
  return {
    ...pick(service, MAY),
    organization,
    api_key,
    async inventory() {
      const [inventory, own] = [await service.inventory(), await owned()]
      const isMine = ({ subject }: { subject: { id: string } }) => own.has(subject.id)
      return { ...inventory, machines: inventory.machines.filter(isMine), files: inventory.files.filter(isMine) }
    },
    async kill_machine(workspace_id) {
      await isOwn(workspace_id)
      await service.kill_machine(workspace_id)
    },
    pool_file: (workspace_id, pattern) => {
      const file = service.pool_file(`ws/${workspace_id}/${pattern}`)
      return {
        read: () => isOwn(workspace_id).then(() => file.read()),
        write: (bytes) => isOwn(workspace_id).then(() => file.write(bytes)),
      }
    },
    admin(...args) {
      const shared = args.find((word) => EVERYBODYS.includes(word))
      if (shared !== undefined) throw new Error(`${shared} is everybody's: start an installation of this test's own`)
      return service.admin(...args)
    },
    stop,
  }
}

function pick<T, K extends keyof T>(from: T, names: readonly K[]): Pick<T, K> {
  return Object.fromEntries(names.map((name) => [name, from[name]])) as Pick<T, K>
}
