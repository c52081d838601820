// `prepare.mjs RESULTS FLAGS…`: runs under the supervisor's lock and prints the supervisor's configuration. RESULTS is the JSON of
// `install`.
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, readFile, readdir, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { availableParallelism, totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import { ensureAccounts } from './accounts.mjs'
import * as config from './config.mjs'
import { loadSettings } from './load.mjs'
import { report } from './main.mjs'
import { ownedFolders } from './owned-folders.mjs'
import { CLONE } from './packages.mjs'
import { clusterConfiguration, ensureCluster, POSTGRES_SUPERUSER, runAs, writeClusterFiles } from './postgres.mjs'
import { publishLayer } from './publish-layer.mjs'
import { SettingsError } from './settings.mjs'

const log = (line) => process.stderr.write(`${line}\n`)

async function prepare(installed, argv) {
  const { settings } = loadSettings(argv)
  const layout = config.layoutOf(settings)
  if (existsSync(layout.restoring)) throw new Error(`A restore to ${settings.data_dir} was not finished: run it again.`)
  const accounts = await ensureAccounts({ log })
  for (const name of ['data_dir', 'run_dir', 'cache_dir']) await checkPath(name, settings[name])
  await makeDirectories(settings, layout, accounts)
  await checkClone()
  if (settings.database_url === '') await preparePostgres(layout, accounts, installed.postgres_bin)
  for (const template of installed.templates) await publishLayer(layout.layers, template, log)
  const written = await writeConfigs(settings, layout, accounts, installed)
  const sources = await sourcesVersion()
  const versions = { ...written, api: `${written.api}${sources}`, cell: `${written.cell}${sources}` }
  for (const name of ['api', 'cell']) await makeCompiled(layout, name, versions[name], accounts[name])
  return config.supervisorConfig(settings, { ...installed, accounts, clone: CLONE, versions })
}

async function makeDirectories(settings, layout, accounts) {
  const root = { uid: 0, gid: 0 }
  // Mode 0755, because other users must reach folders below.
  await directory(settings.data_dir, 0o755, root)
  await directory(settings.run_dir, 0o755, root)
  await directory(layout.keys, 0o711, root)
  for (const { path, mode, owner } of ownedFolders(layout, accounts)) await directory(path, mode, owner)
  await directory(layout.mail, 0o700, accounts.api)
  await directory(layout.layers, 0o755, root)
  await directory(layout.logs, 0o700, root)
  await directory(layout.compiled, 0o711, root)
  await directory(layout.config, 0o755, root)
  await directory(layout.hostd_socket_dir, 0o755, root)
  await directory(layout.ports_socket_dir, 0o2750, { uid: accounts.cell.uid, gid: accounts.ports.gid })
  await directory(layout.postgres_socket, 0o755, accounts.postgres)
}

async function makeCompiled(layout, name, version, owner) {
  const path = layout.compiledOf(name, version)
  await directory(path, 0o700, owner)
  for (const entry of await readdir(layout.compiled)) {
    const found = join(layout.compiled, entry)
    if (entry.startsWith(`${name}-`) && found !== path) await rm(found, { recursive: true, force: true })
  }
}

async function directory(path, mode, { uid, gid }) {
  await mkdir(path, { recursive: true })
  await chown(path, uid, gid)
  await chmod(path, mode)
}

// PostgreSQL, api and cell do not run as root, and must be able to enter the path.
async function checkPath(name, path) {
  await mkdir(path, { recursive: true })
  for (let folder = await realpath(path); folder !== dirname(folder); folder = dirname(folder)) {
    const { mode } = await stat(folder)
    if ((mode & 0o001) === 0) throw new SettingsError(`The setting ${name} is ${path}, and other users than root cannot enter ${folder}.`)
  }
}

// The supervisor bind-mounts a clone below root's home for the other users. They must still be able to read its files.
async function checkClone() {
  for (const path of ['.', 'service/main.ts', 'node_modules']) {
    const { mode } = await stat(join(CLONE, path))
    if ((mode & 0o004) === 0) {
      throw new Error(
        `${join(CLONE, path)} is not readable by other users, and api and cell do not run as root. Run: chmod -R go+rX ${CLONE}`,
      )
    }
  }
}

async function preparePostgres(layout, accounts, bin_dir) {
  const cluster = {
    bin_dir,
    data_dir: layout.postgres_data,
    user: accounts.postgres,
    configuration: clusterConfiguration({ socket_dir: layout.postgres_socket }),
    hba: 'local all all peer map=berth\n',
    ident: identMap(),
  }
  const started = performance.now()
  if (await ensureCluster(cluster)) return log(`database is initialised (${((performance.now() - started) / 1000).toFixed(1)} s)`)
  await checkMajorVersion(cluster)
  await writeClusterFiles(cluster)
}

/** Peer authentication needs no password. Users that are not listed are refused. */
function identMap() {
  const lines = [
    ['root', POSTGRES_SUPERUSER],
    ['berth-pg', POSTGRES_SUPERUSER],
    ['berth-api', 'berth_api'],
    ['berth-cell', 'berth_cell'],
  ]
  return lines.map(([user, role]) => `berth ${user} ${role}\n`).join('')
}

async function checkMajorVersion({ bin_dir, data_dir, user }) {
  const cluster = (await readFile(join(data_dir, 'PG_VERSION'), 'utf8')).trim()
  const printed = await runAs(user, join(bin_dir, 'postgres'), ['--version'])
  const [, program] = /\(PostgreSQL\) (\d+)/.exec(printed) ?? []
  if (cluster === program) return
  throw new Error(
    `${data_dir} was made by PostgreSQL ${cluster}, and this version of Berth brings ${program}: move the data with pg_upgrade first.`,
  )
}

/** If a version changes, the supervisor replaces the running process. */
async function writeConfigs(settings, layout, accounts, installed) {
  const host = { memory_mib: Math.floor(totalmem() / 2 ** 20), cpus: availableParallelism() }
  const root = { uid: 0, gid: 0 }
  const files = {
    hostd: [config.hostdConfig(settings, { accounts, host, ...installed }), root],
    programs: [installed.binaries, root], // `npm run clean` reads this file, because it must not build anything
    bootstrap: [config.setupConfig(settings, installed.templates), root],
    api: [config.apiConfig(settings), accounts.api],
    cell: [config.cellConfig(settings), accounts.cell],
    portd: [config.portsConfig(settings), accounts.ports],
  }
  const versions = {}
  for (const [name, [value, owner]] of Object.entries(files)) {
    const text = `${JSON.stringify(value, null, 2)}\n`
    await writePrivate(layout.configOf(name), text, owner)
    versions[name] = config.versionOf(text)
  }
  return versions
}

async function writePrivate(path, text, { uid, gid }) {
  const unfinished = `${path}.new`
  await writeFile(unfinished, text, { mode: 0o600 })
  await chown(unfinished, uid, gid)
  await rename(unfinished, path)
}

async function sourcesVersion() {
  const files = ['package-lock.json']
  for (const folder of ['service', 'contract']) {
    const entries = await readdir(join(CLONE, folder), { recursive: true })
    files.push(...entries.filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts')).map((name) => join(folder, name)))
  }
  const contents = await Promise.all(files.sort().map(async (name) => `${name}\0${await readFile(join(CLONE, name), 'utf8')}`))
  return config.versionOf(...contents)
}

await report(async () => {
  const [installed, ...argv] = process.argv.slice(2)
  process.stdout.write(JSON.stringify(await prepare(JSON.parse(installed), argv)))
})
