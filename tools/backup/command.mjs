import { existsSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import { loadSettings } from '../setup/load.mjs'
import { againUnderLock, LOCKED } from '../setup/lock.mjs'
import { report } from '../setup/main.mjs'
import { SettingsError } from '../setup/settings.mjs'

/**
 * Runs the command under the supervisor's lock. `signal` aborts at a terminating signal. `ready` runs first: it creates the data directory,
 * or throws.
 */
export function lockedCommand({ usage, program, ready, step }) {
  return report(async () => {
    const argv = process.argv.slice(2)
    const { settings, rest } = loadSettings(argv.filter((each) => each !== LOCKED))
    const [folder, ...more] = rest
    if (folder === undefined || more.length > 0 || !isAbsolute(folder)) throw new SettingsError(`Usage: ${usage}, an absolute path.`)
    if (process.getuid() !== 0) throw new Error('The data belongs to root: run it with sudo.')
    await ready(settings)
    const lock = join(settings.data_dir, 'supervisor.lock')
    if (argv.includes(LOCKED)) return underLock(lock, (signal) => step({ settings, folder, log, signal }))
    const code = againUnderLock(lock, program, argv)
    if (code === undefined) throw new Error(`Something runs on ${settings.data_dir} (process ${holderOf(lock)}): stop Berth first.`)
    return code
  })
}

async function underLock(lock, step) {
  // The lock's file contains the pid, so that `npm run clean` can end this process.
  await writeFile(lock, `${process.pid}\n`)
  const ended = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(name, () => ended.abort(new Error(`It was ended by ${name}.`)))
  await step(ended.signal)
}

function holderOf(lock) {
  return existsSync(lock) ? readFileSync(lock, 'utf8').trim() : '?'
}

function log(line) {
  process.stdout.write(`${line}\n`)
}
