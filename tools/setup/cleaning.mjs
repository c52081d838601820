import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs'
import { readFile, readdir, rm, rmdir } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { isAlive } from './alive.mjs'
import { exists, run } from './cached-build.mjs'
import { layoutOf } from './config.mjs'

/** Names that hostd, the supervisor and initdb create in the data directory. */
const MADE_BY_PROCESSES = ['agents', 'engines', 'fences', 'slots', '.initdb-pg', 'supervisor.lock']

/** Only these names are removed. Other files remain, such as the operator's config.json. */
export function dataNames(settings) {
  const places = Object.values(layoutOf(settings)).filter((place) => typeof place === 'string' && dirname(place) === settings.data_dir)
  return [...places.map((place) => basename(place)), ...MADE_BY_PROCESSES]
}
const STOP_SIGNALS = { postgres: 'SIGINT' }
const SUPERVISOR_STOPS_SECONDS = 120
const CHILD_STOPS_SECONDS = 20

export async function stopSupervisor({ lock, log }) {
  if (!isLocked(lock)) return
  const pid = Number(readFileSync(lock, 'utf8').trim())
  if (!(pid > 1)) throw new Error(`${lock} is held, and does not say by whom.`)
  log(`the running service (process ${pid}) is told to end`)
  signal(pid, 'SIGTERM')
  if (!(await until(() => !isLocked(lock), SUPERVISOR_STOPS_SECONDS)))
    throw new Error(`Process ${pid} did not end in ${SUPERVISOR_STOPS_SECONDS} seconds.`)
}

/** Requires the supervisor's lock. */
export async function clean(settings, { with_data, log }) {
  const layout = layoutOf(settings)
  await stopChildren(settings.run_dir, log)
  await cleanHost(layout, log)
  await unmountBelow(settings.run_dir)
  await removeRunDirectory(settings.run_dir)
  for (const left of leftovers(settings.instance)) log(`left behind: ${left}`)
  if (with_data) await removeData(settings, log)
  log(with_data ? `${settings.data_dir} is gone` : `nothing of ${settings.data_dir} runs; its data is kept (--data removes it)`)
}

// Needed after a supervisor was killed, because its children keep running.
async function stopChildren(run_dir, log) {
  const children = []
  for (const name of await readdir(join(run_dir, 'children')).catch(() => [])) {
    if (!name.endsWith('.json')) continue
    const noted = JSON.parse(await readFile(join(run_dir, 'children', name), 'utf8'))
    if (isAlive(noted)) children.push({ name: name.slice(0, -'.json'.length), ...noted })
  }
  for (const child of children.sort((a, b) => order(a) - order(b))) {
    log(`${child.name} (process ${child.pid}) is ended`)
    const ended = () => !isAlive(child)
    signal(child.pid, STOP_SIGNALS[child.name] ?? 'SIGTERM')
    if (await until(ended, CHILD_STOPS_SECONDS)) continue
    signal(child.pid, 'SIGKILL')
    await until(ended, CHILD_STOPS_SECONDS)
  }
}

function order({ name }) {
  return name === 'postgres' ? 2 : name === 'hostd' ? 1 : 0
}

async function cleanHost(layout, log) {
  const config = layout.configOf('hostd')
  const programs = layout.configOf('programs')
  if (!existsSync(config) || !existsSync(programs)) return // the installation has not started since the boot
  const { hostd } = JSON.parse(await readFile(programs, 'utf8'))
  if (!existsSync(hostd))
    throw new Error(`${hostd} is gone, and only hostd can take its machines down: start Berth once, then clean again.`)
  const printed = await run(hostd, ['clean', '--config', config], { timeout_seconds: 300 })
  for (const line of printed.split('\n').filter((line) => line !== '')) log(line)
}

async function unmountBelow(folder) {
  if (!existsSync(folder)) return
  const real = realpathSync(folder)
  const points = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[4])
    .filter((point) => point?.startsWith(`${real}/`))
  for (const point of points.reverse()) await run('umount', ['--lazy', point])
}

async function removeRunDirectory(run_dir) {
  // Does not cross file systems: if a mount still exists, its contents must not be deleted.
  if (existsSync(run_dir)) await run('rm', ['--recursive', '--force', '--one-file-system', run_dir], { timeout_seconds: 120 })
  await rmdir(dirname(run_dir)).catch(() => {}) // the parent folder may contain other installations
}

async function removeData(settings, log) {
  const { data_dir } = settings
  for (const name of dataNames(settings)) await rm(join(data_dir, name), { recursive: true, force: true })
  if (!(await exists(data_dir))) return
  const others = await readdir(data_dir)
  if (others.length === 0) await rmdir(data_dir)
  else log(`${data_dir} keeps what Berth did not make: ${others.join(', ')}`)
}

export function leftovers(instance) {
  const name = `berth-${instance}`
  const cgroups = ['', ...list('/sys/fs/cgroup')].map((each) => join('/sys/fs/cgroup', each, name)).filter((path) => existsSync(path))
  const namespaces = list('/run/netns')
    .filter((each) => each.includes(instance))
    .map((each) => `network namespace ${each}`)
  const links = list('/sys/class/net')
    .filter((each) => each.includes(instance))
    .map((each) => `network link ${each}`)
  return [...cgroups, ...namespaces, ...links]
}

function list(folder) {
  return existsSync(folder) ? readdirSync(folder) : []
}

function isLocked(lock) {
  if (!existsSync(lock)) return false
  return spawnSync('flock', ['--nonblock', '--conflict-exit-code', '75', lock, 'true']).status === 75
}

function signal(pid, name) {
  try {
    process.kill(pid, name)
  } catch (error) {
    if (error.code !== 'ESRCH') throw error // ESRCH: the process has ended
  }
}

async function until(check, seconds) {
  for (const deadline = performance.now() + seconds * 1000; !check(); await new Promise((resolve) => setTimeout(resolve, 20))) {
    if (performance.now() > deadline) return false
  }
  return true
}
