// `npm start`: prepares everything and then becomes the supervisor. Flags are settings: `npm start -- --data-dir /srv/berth`.
import { spawn } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { ensureClients } from './setup/clients.mjs'
import { publishLater } from './setup/late-templates.mjs'
import { isTemplateBuilt, templateNames } from './setup/template.mjs'
import { install } from './setup/install.mjs'
import { loadSettings } from './setup/load.mjs'
import { report } from './setup/main.mjs'
import { SettingsError } from './setup/settings.mjs'

const PREPARE = fileURLToPath(new URL('./setup/prepare.mjs', import.meta.url))

await report(async () => {
  const argv = process.argv.slice(2)
  const { settings, rest } = loadSettings(argv)
  if (rest.length > 0) throw new SettingsError(`${rest[0]} is not a flag.`)
  const log = (line) => process.stdout.write(`${line}\n`)
  const installed = await install({ settings, log, may_be_late: true })
  await ensureClients({ node: installed.node, log })
  await mkdir(settings.data_dir, { recursive: true })
  await publishLater(installed, settings, argv)
  await tellOthers(settings, installed)
  const prepare = [installed.node, PREPARE, JSON.stringify(installed), ...argv]
  // npm's shell does not forward signals, so the service ends when npm ends.
  const parent = process.env.npm_lifecycle_event === 'start' ? ['--end-with-parent'] : []
  return become(installed.binaries.supervisor, ['--data-dir', settings.data_dir, ...parent, '--', ...prepare])
})

async function tellOthers({ cache_dir }, { late_templates }) {
  const names = []
  for (const name of await templateNames()) {
    if (!late_templates.includes(name) && !(await isTemplateBuilt({ name, cache_dir }))) names.push(name)
  }
  if (names.length > 0) process.stdout.write(`templates that can be built, in some minutes each: npm run templates -- ${names.join(' ')}\n`)
}

function become(path, args) {
  if (process.execve) {
    process.removeAllListeners('warning') // hides the warning that execve is experimental
    process.execve(path, [path, ...args])
  }
  const child = spawn(path, args, { stdio: 'inherit' })
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(name, () => child.kill(name))
  // If npm's shell has ended, no signal will be forwarded.
  const parent = process.ppid
  if (args.includes('--end-with-parent')) setInterval(() => process.ppid !== parent && child.kill('SIGTERM'), 500).unref()
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => resolve(code ?? 1))
  })
}
