// Runs a command so that nothing of it outlives it. The command has namespaces of mounts, processes and System V IPC, and a /tmp of its
// own. When its first process ends, or the process that waits for it outside, the kernel ends all the others and takes their mounts.
// What has no such end is taken down afterwards, or by the next command where this process was killed, too.
import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CLONE } from '../setup/packages.mjs'
import { isAlive, startTimeOf } from '../setup/alive.mjs'

/** Says to a command that it is inside. */
export const INSIDE_VARIABLE = 'BERTH_TEST_ENCLOSED'
/** Names a folder that outlives the command, for logs. It goes with the command where it is empty. */
export const KEPT_VARIABLE = 'BERTH_TEST_KEPT'

const PREFIX = 'berth-run-'
const INIT = fileURLToPath(new URL('init.sh', import.meta.url))
const TAKE_DOWN = fileURLToPath(new URL('take-down.mjs', import.meta.url))
/** Folders in an enclosure's /tmp whose owners have names in the kernel: take-down.mjs knows them. */
const HAVE_NAMES = /^(berth-test-service$|berth-engine-|hostd-|bt-)/
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP']
/** A folder this young may belong to a process that has not written its mark yet. */
const STARTING_MS = 60_000
/** The same key press reaches a process by the terminal and by npm. One that comes later asks for an end at once. */
const SAME_SIGNAL_MS = 2000
const PARENT_LOOK_MS = 1000

/** Whether commands can be enclosed here. Without root there are no machines either, and a command is ended as its parent ends it. */
export function canEnclose() {
  return process.getuid() === 0 && spawnSync('unshare', ['--mount', '--pid', '--ipc', '--fork', 'true']).status === 0
}

/**
 * Starts `[program, ...args]` enclosed; where that is not possible, or this process is enclosed already, without. Signals that reach this
 * process are passed on. `shown` are folders that the command needs, should they lie below /tmp. `ipc` opens a channel.
 *
 * Returns `{ child, ended, note }`: `ended` resolves to the exit code when nothing is left, and `note({ hostd })` says which program can
 * take machines down.
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

/** Takes down what killed commands have left, by the marks in their folders: the processes that waited for them have ended. */
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
  chmodSync(folder, 0o755) // users of databases pass through
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

/** Enters the namespaces of a folder once more, for what bears names of paths inside, and removes the folder. */
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

/** The arguments of `spawn` for a command inside. */
function inside(folder, command, { env = process.env, stdio, shown = [] }) {
  const own = dirname(process.execPath)
  const places = [...new Set([CLONE, own, ...shown])].filter((place) => place.startsWith('/tmp/') && existsSync(place))
  // /tmp inside is what a folder named here would be outside.
  const rest = Object.fromEntries(Object.entries(env).filter(([name]) => name !== 'TMPDIR'))
  // Killed with this process, and the first process inside with it.
  const namespaces = ['unshare', '--mount', '--pid', '--ipc', '--fork', '--kill-child', '--mount-proc', '--']
  const first = ['sh', INIT, join(folder, 'tmp'), ...places, '--', ...command]
  // A group of its own: a key pressed at the terminal reaches this process, which passes it on once.
  const options = { cwd: CLONE, env: { ...rest, [INSIDE_VARIABLE]: '1' }, stdio, detached: true }
  return ['setpriv', ['--pdeathsig', 'KILL', '--', ...namespaces, ...first], options]
}

function startPlainly([program, ...args], options) {
  const child = spawn(program, args, options)
  const pass = (name) => child.kill(name)
  for (const name of SIGNALS) process.on(name, pass)
  return { child, ended: endOf(child), note: () => undefined }
}

/** Passes signals on to the first process inside; a second one, and the end of npm, which would have passed none, end it. Returns how to stop that. */
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
    if (first_ms === undefined) pass('SIGTERM') // npm that passes a signal on ends at once itself
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
    return [] // it has ended
  }
}

function signal(pid, name) {
  try {
    process.kill(pid, name)
  } catch (error) {
    if (error.code !== 'ESRCH') throw error // ESRCH: it has ended by itself
  }
}

function endOf(child) {
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => resolve(code ?? 1))
  })
}
