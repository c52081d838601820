import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { type Db, openDatabase } from '../../service/db/database.ts'
import type { DatabaseOptions } from '../../service/db/options.ts'
import { migrate } from '../../service/db/migrate.ts'
import { clusterConfiguration, ensureCluster, ensurePostgres, type OsUser, POSTGRES_SUPERUSER } from '../../tools/setup/postgres.mjs'
import { patience } from './patience.ts'

/** A migrated database in a real PostgreSQL. `api` and `cell` have the roles of these processes. `await using` drops it. */
export interface TestDatabase extends AsyncDisposable {
  url: string
  superuser: Db
  api: Db
  cell: Db
  options(role: DatabaseOptions['role']): DatabaseOptions
  /** Closes and refuses all connections. @returns a function that allows them again */
  goAway(): Promise<() => Promise<void>>
}

export interface TestServer {
  socket_dir: string
  /** Many files use it, so a slow server is not down. A file may stop only its own server. */
  shared: boolean
  url(database: string): string
  stop(): void
}

const MIGRATED = 'migrated'
/** For the shared server, which many files use in parallel. */
const PATIENT_MS = 30_000
/** Socket folder of the runner's server. */
export const SHARED_SERVER_VARIABLE = 'BERTH_TEST_POSTGRES'

let server: Promise<TestServer> | undefined

/** Starts a server that only this file uses, and may stop or kill. */
export function startOwnServer(): Promise<TestServer> {
  server = startTestServer()
  return server
}

/** Takes 40 ms. The first call of a process may start the server, which takes about a second. */
export async function freshDatabase(): Promise<TestDatabase> {
  server ??= sharedServer() ?? startTestServer()
  const { url, shared } = await server
  const name = `test_${randomBytes(8).toString('hex')}`
  await administer(url('postgres'), `create database ${name} template ${MIGRATED}`)
  return openTestDatabase(url(name), name, shared, (statement) => administer(url('postgres'), statement))
}

function openTestDatabase(url: string, name: string, shared: boolean, command: (statement: string) => Promise<void>): TestDatabase {
  const options = (role: DatabaseOptions['role']) => ({
    ...{ url, role, connections_max: 5, application_name: 'berth-test' },
    ...(shared ? { answers_within_ms: PATIENT_MS } : {}),
  })
  const opened = {
    superuser: openDatabase(options(null)),
    api: openDatabase(options('berth_api')),
    cell: openDatabase(options('berth_cell')),
  }
  return {
    url,
    options,
    ...opened,
    async goAway() {
      await command(`alter database ${name} with allow_connections false`)
      await command(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`)
      return () => command(`alter database ${name} with allow_connections true`)
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(Object.values(opened).map((db) => db.destroy()))
      await command(`drop database if exists ${name} with (force)`)
    },
  }
}

/** The server has the migrated template database. It ends with this process, even if this is killed. */
export async function startTestServer(): Promise<TestServer> {
  const bin_dir = await ensurePostgres({ cache_dir: process.env['BERTH_CACHE_DIR'] ?? '/var/cache/berth' })
  const folder = mkdtempSync('/tmp/berth-test-pg-')
  const user = serverUser()
  const socket_dir = join(folder, 'socket')
  mkdirSync(socket_dir, { mode: 0o700 })
  for (const path of [folder, socket_dir]) chownSync(path, user.uid, user.gid)
  chmodSync(folder, 0o700) // keeps other users out: the server trusts every local connection
  await ensureCluster({
    bin_dir,
    data_dir: join(folder, 'data'),
    user,
    // Without fsync, test data may be lost in a crash. Everything else is like a real server.
    configuration: clusterConfiguration({ socket_dir, settings: { fsync: 'off', full_page_writes: 'off', max_connections: 400 } }),
    hba: 'local all all trust\n',
    ident: '',
    sync: false,
  })
  const child = startServer(user, join(bin_dir, 'postgres'), join(folder, 'data'))
  const stop = () => {
    child.kill('SIGQUIT')
    waitForEnd(child.pid)
    rmSync(folder, { recursive: true, force: true })
  }
  process.once('exit', stop)
  await ready(urlOf(socket_dir, 'postgres'), child)
  await administer(urlOf(socket_dir, 'postgres'), `create database ${MIGRATED}`)
  await migrate(urlOf(socket_dir, MIGRATED))
  return { socket_dir, shared: false, url: (database) => urlOf(socket_dir, database), stop }
}

/** The postmaster stops first and continues last, so that no child starts or ends in between. */
export function signalServer({ socket_dir }: TestServer, signal: 'SIGSTOP' | 'SIGCONT'): void {
  const postmaster = Number.parseInt(readFileSync(join(socket_dir, '..', 'data', 'postmaster.pid'), 'utf8'), 10)
  if (signal === 'SIGSTOP') process.kill(postmaster, signal)
  const children = execFileSync('pgrep', ['-P', String(postmaster)], { encoding: 'utf8' })
    .trim()
    .split('\n')
  for (const pid of children) process.kill(Number(pid), signal)
  if (signal === 'SIGCONT') process.kill(postmaster, signal)
}

function sharedServer(): Promise<TestServer> | undefined {
  const socket_dir = process.env[SHARED_SERVER_VARIABLE]
  if (socket_dir === undefined) return undefined
  return Promise.resolve({ socket_dir, shared: true, url: (database) => urlOf(socket_dir, database), stop: () => undefined })
}

function startServer(user: OsUser, postgres: string, data_dir: string): ChildProcess {
  const identity = process.getuid?.() === user.uid ? [] : ['--reuid', String(user.uid), '--regid', String(user.gid), '--clear-groups']
  // The parent-death signal also covers a killed test process: SIGQUIT then ends the server at once.
  const child = spawn('setpriv', [...identity, '--pdeathsig', 'QUIT', '--', postgres, '-D', data_dir], { stdio: 'ignore', cwd: '/' })
  child.unref()
  return child
}

/** A running server would write into the folder again. The wait is synchronous, because no asynchronous code runs while a process exits. */
function waitForEnd(pid: number | undefined): void {
  const still = new Int32Array(new SharedArrayBuffer(4))
  for (let tries = 0; tries < 6000 && isRunning(pid); tries += 1) Atomics.wait(still, 0, 0, 10)
}

function isRunning(pid: number | undefined): boolean {
  try {
    return !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8')) // a zombie has ended, and this process no longer reaps it
  } catch {
    return false // no such process
  }
}

function urlOf(socket_dir: string, database: string): string {
  return `postgres:///${database}?host=${encodeURIComponent(socket_dir)}&user=${POSTGRES_SUPERUSER}`
}

async function ready(url: string, child: ChildProcess): Promise<void> {
  const deadline_ms = performance.now() + patience(120_000)
  for (;;) {
    try {
      return await administer(url, 'select 1')
    } catch (cause) {
      if (child.exitCode !== null || performance.now() > deadline_ms) throw new Error('The test PostgreSQL did not start', { cause })
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}

async function administer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 60_000 })
  client.on('error', () => undefined) // the query reports it
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

/** PostgreSQL refuses to run as root, and needs an existing user. */
function serverUser(): OsUser {
  const own = userInfo()
  if (own.uid !== 0) return own
  const entries = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
  const entry = entries.find(([name]) => name === 'berth-pg') ?? entries.find(([name]) => name === 'nobody')
  if (entry === undefined) throw new Error('No unprivileged user was found to run the test PostgreSQL')
  return { uid: Number(entry[2]), gid: Number(entry[3]) }
}
