// Builds into a temporary folder, so <parent>/<key> exists only if its build has finished.
import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

// No build takes this long, so an older folder belongs to a killed process. Pids cannot decide: containers that share a cache do not see
// each other's processes.
const ABANDONED_AFTER_MS = 24 * 3600 * 1000
const OUTPUT_TAIL_CHARS = 4000
/** Interval of a progress line: a long step must not look stuck. */
const SIGN_MS = 30_000

/**
 * `build({ work, output, run })` fills the folder `output`. Of two concurrent builders the first to finish wins.
 * Children of `run` end with the build. On failure, SIGINT or SIGTERM they are ended and the temporary folder is removed.
 */
export async function cachedBuild({ parent, key, build }) {
  const finished = join(parent, key)
  if (await exists(finished)) return finished
  await mkdir(parent, { recursive: true })
  await removeAbandoned(parent)
  const folder = await mkdtemp(join(parent, '.building-'))
  const interruption = catchSignals()
  try {
    const [work, output] = [join(folder, 'work'), join(folder, 'output')]
    await mkdir(work)
    await mkdir(output, { mode: 0o755 })
    await build({ work, output, run: (command, args, options) => run(command, args, { ...options, signal: interruption.signal }) })
    interruption.signal.throwIfAborted()
    await syncFiles(output)
    await renameUnlessThere(output, finished)
  } finally {
    await rm(folder, { recursive: true, force: true })
    interruption.release()
  }
  return finished
}

/** Returns stdout. On failure, ends the whole process group and throws with the end of the output. */
export async function run(command, args, { cwd, env = process.env, timeout_seconds = 60, signal } = {}) {
  // A process group of its own, so that the child's compilers and package managers can be ended, too.
  const child = spawn(command, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  let stdout = ''
  let tail = ''
  let ended_because
  const keepTail = (text) => {
    tail = (tail + text).slice(-OUTPUT_TAIL_CHARS)
  }
  child.stdout.setEncoding('utf8').on('data', (text) => {
    stdout += text
    keepTail(text)
  })
  child.stderr.setEncoding('utf8').on('data', keepTail)
  const end = (why) => {
    ended_because = why
    endGroup(child)
  }
  const timer = setTimeout(() => end(`did not finish in ${timeout_seconds} seconds`), timeout_seconds * 1000)
  const interrupt = () => end('was interrupted')
  signal?.addEventListener('abort', interrupt)
  if (signal?.aborted) interrupt()
  try {
    const code = await new Promise((resolve, reject) => {
      child.once('error', reject)
      child.once('close', (exit_code, exit_signal) => resolve(exit_code ?? exit_signal))
    })
    if (ended_because === undefined && code === 0) return stdout
    throw new Error(`${command} ${args[0] ?? ''} ${ended_because ?? `ended with ${code}`}.\n${tail.trim()}`)
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', interrupt)
  }
}

export async function timed(log, what, step, sign_ms = SIGN_MS) {
  const started = performance.now()
  const seconds = () => (performance.now() - started) / 1000
  const sign = setInterval(() => log(`${what}: not yet, after ${seconds().toFixed(0)} s`), sign_ms)
  try {
    const result = await step()
    log(`${what} (${seconds().toFixed(1)} s)`)
    return result
  } finally {
    clearInterval(sign)
  }
}

export async function exists(path) {
  return stat(path).then(
    () => true,
    (error) => {
      if (error.code === 'ENOENT') return false
      throw error
    },
  )
}

function endGroup(child) {
  if (child.pid === undefined) return
  const kill = (signal) => {
    try {
      process.kill(-child.pid, signal)
    } catch (error) {
      if (error.code !== 'ESRCH') throw error // ESRCH: all processes of the group have ended
    }
  }
  // SIGTERM comes first, so that mmdebstrap can remove its mounts.
  kill('SIGTERM')
  const timer = setTimeout(() => kill('SIGKILL'), 10_000)
  child.once('close', () => clearTimeout(timer))
}

function catchSignals() {
  const controller = new AbortController()
  let caught
  const onSignal = (name) => {
    caught = name
    controller.abort(new Error(`The build was interrupted by ${name}.`))
  }
  const names = ['SIGINT', 'SIGTERM']
  for (const name of names) process.on(name, onSignal)
  return {
    signal: controller.signal,
    release() {
      for (const name of names) process.off(name, onSignal)
      if (caught) process.kill(process.pid, caught)
    },
  }
}

// Syncs before the rename: a power cut could otherwise leave incomplete files under the final name.
async function syncFiles(folder) {
  for (const path of [...(await readdir(folder)).map((name) => join(folder, name)), folder]) {
    const handle = await open(path)
    await handle.sync().finally(() => handle.close())
  }
}

async function renameUnlessThere(from, to) {
  try {
    await rename(from, to)
  } catch (error) {
    // ENOTEMPTY or EEXIST: another builder has finished first, with an equivalent result.
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
  }
}

async function removeAbandoned(parent) {
  for (const name of await readdir(parent)) {
    if (!name.startsWith('.building-')) continue
    const path = join(parent, name)
    const seen = await stat(path).catch(() => undefined)
    if (seen && Date.now() - seen.mtimeMs > ABANDONED_AFTER_MS) await rm(path, { recursive: true, force: true })
  }
}
