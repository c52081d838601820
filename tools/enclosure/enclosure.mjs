// Runs a command in mount, pid and IPC namespaces and a /tmp of its own, so that nothing of it remains. When the first process inside or
// the waiting process outside ends, the kernel kills all others and removes their mounts.
// Other resources are removed afterwards, or by the next command if this process was killed.
import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CLONE } from '../setup/packages.mjs'
import { isAlive, startTimeOf } from '../setup/alive.mjs'

export const INSIDE_VARIABLE = 'BERTH_TEST_ENCLOSED'
/** Log folder that outlives the command. */
export const KEPT_VARIABLE = 'BERTH_TEST_KEPT'

const PREFIX = 'berth-run-'
const INIT = fileURLToPath(new URL('init.sh', import.meta.url))
const TAKE_DOWN = fileURLToPath(new URL('take-down.mjs', import.meta.url))
/** Owners of such folders also have named kernel resources. */
const HAVE_NAMES = /^(berth-test-service$|berth-engine-|hostd-|bt-)/
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP']
/** A recently made folder may have no owner file yet, because its process is still starting. */
const STARTING_MS = 60_000
/** One key press sends the same signal twice: from the terminal and from npm. Only a later signal forces the end. */
const SAME_SIGNAL_MS = 2000
const PARENT_LOOK_MS = 1000

/** Without root there are no machines to enclose, and the parent ends the command. */
export function canEnclose() {
  return process.getuid() === 0 && spawnSync('unshare', ['--mount', '--pid', '--ipc', '--fork', 'true']).status === 0
}

/**
 * `shown`: folders below /tmp that the command needs. `ipc` opens a channel. `ended` resolves when all processes and resources are gone.
 * `note({ hostd })` records the program that can remove machines.
 */
export function startEnclosed(command, { env, shown = [], ipc = false, hostd } = {}) {
  const stdio = ['inherit', 'inherit', 'inherit', ...(ipc ? ['ipc'] : [])]
  if (process.env[INSIDE_VARIABLE] === '1' || !canEnclose()) return startPlainly(command, { cwd: CLONE, env, stdio })
  sweepEnclosures()
  const enclosure = makeEnclosure()
  if (hostd !== undefined) enclosure.note({ hostd })
  const kept = mkdtempSync(join(tmpdir(), 'berth-test-logs-'))
  const child = spawn(...inside(enclosure.folder, command, { env: { ...env, [KEPT_VARIABLE]: kept }, stdio, shown: [kept, ...shown] }))
  const end = passSignals(child)
  const ended = endOf(child).then((code) => {
    end()
    takeDown(enclosure.folder)
    removeIfEmpty(kept)
    return code
  })
  return { child, ended, note: enclosure.note }
}

export function sweepEnclosures() {
  for (const name of readdirSync(tmpdir()).filter((each) => each.startsWith(PREFIX))) {
    const folder = join(tmpdir(), name)
    const owner = ownerOf(folder)
    if (owner === undefined ? Date.now() - statSync(folder).ctimeMs < STARTING_MS : isAlive(owner)) continue
    takeDown(folder)
  }
}

function makeEnclosure() {
  const folder = mkdtempSync(join(tmpdir(), PREFIX))
  chmodSync(folder, 0o755) // users of the databases must be able to enter
  mkdirSync(join(folder, 'tmp'))
  chmodSync(join(folder, 'tmp'), 0o1777)
  const mark = { pid: process.pid, start_time: startTimeOf(process.pid) }
  const note = (more) => writeFileSync(join(folder, 'owner'), JSON.stringify(Object.assign(mark, more)))
  note({})
  return { folder, note }
}

function ownerOf(folder) {
  try {
    return JSON.parse(readFileSync(join(folder, 'owner'), 'utf8'))
  } catch {
    return undefined
  }
}

/** Runs inside the enclosure again, because kernel resources are named by paths inside. */
function takeDown(folder) {
  const remove = () => spawnSync('rm', ['-rf', '--one-file-system', folder], { stdio: 'inherit' })
  const tmp = join(folder, 'tmp')
  if (!existsSync(tmp) || !readdirSync(tmp).some((name) => HAVE_NAMES.test(name))) return remove()
  const { hostd } = ownerOf(folder) ?? {}
  const [program, args, options] = inside(folder, [process.execPath, TAKE_DOWN, ...(hostd === undefined ? [] : [hostd])], {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  if (spawnSync(program, args, options).status !== 0) process.stderr.write(`${folder} could not be taken down whole\n`)
  else remove()
}

function removeIfEmpty(folder) {
  try {
    rmdirSync(folder)
  } catch (error) {
    if (error.code !== 'ENOTEMPTY') throw error
  }
}

function inside(folder, command, { env = process.env, stdio, shown = [] }) {
  const own = dirname(process.execPath)
  const places = [...new Set([CLONE, own, ...shown])].filter((place) => place.startsWith('/tmp/') && existsSync(place))
  // TMPDIR is omitted, because it names a folder outside.
  const rest = Object.fromEntries(Object.entries(env).filter(([name]) => name !== 'TMPDIR'))
  // If this process dies, the kernel kills unshare, and with it the first process inside.
  const namespaces = ['unshare', '--mount', '--pid', '--ipc', '--fork', '--kill-child', '--mount-proc', '--']
  const first = ['sh', INIT, join(folder, 'tmp'), ...places, '--', ...command]
  // In its own process group: a terminal signal reaches only this process, which forwards it once.
  const options = { cwd: CLONE, env: { ...rest, [INSIDE_VARIABLE]: '1' }, stdio, detached: true }
  return ['setpriv', ['--pdeathsig', 'KILL', '--', ...namespaces, ...first], options]
}

function startPlainly([program, ...args], options) {
  const child = spawn(program, args, options)
  const pass = (name) => child.kill(name)
  for (const name of SIGNALS) process.on(name, pass)
  return { child, ended: endOf(child), note: () => undefined }
}

/**
 * Forwards signals; a late second one kills. If npm ends without forwarding a signal, sends SIGTERM. Returns a function that stops the
 * forwarding.
 */
function passSignals(child) {
  let first_ms
  const pass = (name) => {
    first_ms ??= performance.now()
    if (performance.now() - first_ms > SAME_SIGNAL_MS) child.kill('SIGKILL')
    else for (const pid of childrenOf(child.pid)) signal(pid, name)
  }
  for (const name of SIGNALS) process.on(name, pass)
  const parent = process.ppid
  const look = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(look)
    if (first_ms === undefined) pass('SIGTERM') // npm ends without having forwarded a signal
  }, PARENT_LOOK_MS)
  if (process.env.npm_lifecycle_event === undefined) clearInterval(look)
  return () => {
    clearInterval(look)
    for (const name of SIGNALS) process.off(name, pass)
  }
}

function childrenOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)
  } catch {
    return []
  }
}

function signal(pid, name) {
  try {
    process.kill(pid, name)
  } catch (error) {
    if (error.code !== 'ESRCH') throw error // ESRCH: the process has ended
  }
}

function endOf(child) {
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => resolve(code ?? 1))
  })
}
