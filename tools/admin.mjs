// `npm run admin -- [settings] NOUN VERB …`: commands for operators.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { addressText, databaseUrl, layoutOf } from './setup/config.mjs'
import { findNode } from './setup/install.mjs'
import { loadSettings } from './setup/load.mjs'
import { report } from './setup/main.mjs'
import { CLONE } from './setup/packages.mjs'
import { SETTINGS, withoutSecrets } from './setup/settings.mjs'
import { serviceCommand } from './setup/systemd.mjs'

await report(() => {
  const argv = process.argv.slice(2)
  const { settings, given, rest } = loadSettings(argv)
  if (rest.some((word) => /^--data-dir(=|$)/.test(word)))
    throw new Error('Settings stand before the command: npm run admin -- --data-dir FOLDER NOUN VERB')
  if (rest[0] === 'config' && rest[1] === 'check') return checkConfig(settings, given, rest.includes('--json'))
  const main = join(CLONE, 'service', 'admin', 'main.ts')
  if (rest[0] === 'service') {
    const log = (line) => process.stdout.write(`${line}\n`)
    return serviceCommand(rest.slice(1), { settings, argv: argv.slice(0, argv.length - rest.length), log })
  }
  // Every user of the computer can read command lines, and a URL may contain a password.
  const env = {
    ...process.env,
    BERTH_ADMIN: JSON.stringify({
      database_url: databaseUrl(settings),
      layers_dir: layoutOf(settings).layers,
      secret_keys_dir: layoutOf(settings).cell_keys,
      secret_keys_command: settings.secret_keys_command,
      base_url: settings.base_url,
      ports_url: settings.ports_url,
      doctor: placesOf(settings),
    }),
  }
  const { status, signal } = spawnSync(findNode(), ['--disable-warning=ExperimentalWarning', main, ...rest], { stdio: 'inherit', env })
  if (signal) throw new Error(`The command was ended by ${signal}.`)
  return status
})

/** Values that the doctor needs: service/admin/doctor-facts.ts. */
function placesOf(settings) {
  const { instance, data_dir, run_dir, cell_name, slots, shells } = settings
  return {
    database_url: databaseUrl(settings),
    embedded: settings.database_url === '',
    instance,
    data_dir,
    data_reserve_bytes: settings.data_reserve_gib * 2 ** 30,
    run_dir,
    hostd_socket: layoutOf(settings).hostd_socket,
    api_ops: settings.api_ops_listen,
    cell_ops: settings.cell_ops_listen,
    cell_name,
    slots,
    shells,
    mail_directory: settings.smtp_url === '' ? layoutOf(settings).mail : '',
  }
}

function checkConfig(settings, given, as_json) {
  const shown = Object.entries(withoutSecrets(settings)).map(([name, value]) => [
    name,
    valueText(value),
    given[name] ?? 'from data_dir',
    SETTINGS[name]?.about ?? '',
  ])
  if (as_json)
    process.stdout.write(
      `${JSON.stringify(Object.fromEntries(shown.map(([name, value, source]) => [name, { value, source }])), null, 2)}\n`,
    )
  else
    for (const [name, value, source, about] of shown)
      process.stdout.write(`${name.padEnd(22)} ${value.padEnd(26)} ${source.padEnd(16)} ${about}\n`)
  return 0
}

function valueText(value) {
  if (Array.isArray(value)) return value.join(',')
  if (typeof value === 'object') return addressText(value)
  return String(value)
}
