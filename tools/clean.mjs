// `npm run clean -- [--data] [settings]`: ends all processes of an installation and removes what they left in the kernel and below /run.
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { clean, stopSupervisor } from './setup/cleaning.mjs'
import { loadSettings } from './setup/load.mjs'
import { againUnderLock, LOCKED } from './setup/lock.mjs'
import { report } from './setup/main.mjs'
import { SettingsError } from './setup/settings.mjs'

await report(async () => {
  const argv = process.argv.slice(2)
  const options = new Set(argv.filter((each) => each === '--data' || each === LOCKED))
  const { settings, rest } = loadSettings(argv.filter((each) => !options.has(each)))
  if (rest.length > 0) throw new SettingsError(`${rest[0]} is not a flag.`)
  if (process.getuid() !== 0) throw new Error('Cleaning needs root.')
  const log = (line) => process.stdout.write(`${line}\n`)
  if (options.has(LOCKED) || !existsSync(settings.data_dir)) return clean(settings, { with_data: options.has('--data'), log })
  const lock = `${settings.data_dir}/supervisor.lock`
  await stopSupervisor({ lock, log })
  // While this process has the lock, no start can interfere.
  const code = againUnderLock(lock, fileURLToPath(import.meta.url), argv)
  if (code === undefined) throw new Error(`Berth was started again on ${settings.data_dir} (process ${readFileSync(lock, 'utf8').trim()}).`)
  return code
})
