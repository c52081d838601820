// `npm run admin -- [settings] service install|uninstall|status`.
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { open, rename } from 'node:fs/promises'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { run } from './cached-build.mjs'
import { install } from './install.mjs'
import { CLONE } from './packages.mjs'
import { SettingsError } from './settings.mjs'

const UNITS = '/etc/systemd/system'
const USUAL_DATA_DIR = '/var/lib/berth'
/** Long enough for set-up and a first start. Later starts find the builds in the cache. */
const START_SECONDS = 1800
const STOP_SECONDS = 150
const SHOWN_LINES = 30
// Starts after the host's firewalls, so that Berth sees their rules at its first check.
const AFTER = ['network-online.target', 'nftables.service', 'ufw.service', 'firewalld.service', 'docker.service', 'local-fs.target']

const SERVICE_USAGE = 'npm run admin -- [settings] service install | uninstall | status'

/** The unit starts Berth with the settings of `argv`. */
export async function serviceCommand([verb, ...more], { settings, argv, log }) {
  const verbs = { install: installUnit, uninstall: uninstallUnit, status: showUnit }
  if (more.length > 0 || !Object.hasOwn(verbs, verb ?? '')) throw new SettingsError(`Usage: ${SERVICE_USAGE}`)
  if (process.getuid() !== 0) throw new Error('A unit of systemd is installed by root: run it with sudo.')
  if (!existsSync('/run/systemd/system'))
    throw new Error('This computer was not started by systemd: keep `npm start` running by what it has instead.')
  return verbs[verb]({ settings, argv, log, unit: unitName(settings) })
}

/** The name contains the instance if the data directory is not the usual one. */
export function unitName({ data_dir, instance }) {
  return data_dir === USUAL_DATA_DIR ? 'berth.service' : `berth-${instance}.service`
}

/** `identifier` is the tag of the unit's lines in the journal. */
export function unitText({ node, clone, data_dir, path, identifier, flags }) {
  const command = [node, join(clone, 'tools', 'start.mjs'), '--show-logs', 'yes', ...flags].map(quoted).join(' ')
  return `# Written by \`npm run admin -- service install\`; \`service uninstall\` removes it.
[Unit]
Description=Berth: isolated, durable workspaces (${data_dir})
Wants=network-online.target
After=${AFTER.join(' ')}
RequiresMountsFor=${quoted(data_dir)} ${quoted(clone)}
StartLimitIntervalSec=0

[Service]
Type=notify
# The process that starts becomes the supervisor, which moves to a control group of its own and says when everything serves.
NotifyAccess=main
ExecStart=${command}
WorkingDirectory=${clone}
# Set-up finds Go and npm where whoever installed this found them.
Environment=HOME=/root ${quoted(`PATH=${path}`)}
# Machines outlive the service, as they do its death: the next start adopts them. \`npm run clean\` ends them.
KillMode=process
# Its processes are in a control group of Berth's own, by which the journal does not find the unit.
SyslogIdentifier=${identifier}
TimeoutStartSec=${START_SECONDS}
TimeoutStopSec=${STOP_SECONDS}
Restart=always
RestartSec=5
# A mistake in the settings does not mend itself.
RestartPreventExitStatus=2

[Install]
WantedBy=multi-user.target
`
}

/** Quotes a word by the rules of systemd.service(5). */
function quoted(word) {
  const escaped = word.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('%', '%%').replaceAll('$', '$$$$')
  return /^[A-Za-z0-9_@:=./,+%-]+$/.test(escaped) ? escaped : `"${escaped}"`
}

async function installUnit({ settings, argv, log, unit }) {
  const { node } = await install({ settings, log })
  const text = unitText({
    node,
    clone: CLONE,
    data_dir: settings.data_dir,
    path: process.env.PATH,
    identifier: identifierOf(unit),
    flags: argv,
  })
  const path = join(UNITS, unit)
  const changed = !existsSync(path) || readFileSync(path, 'utf8') !== text
  if (changed) await writeDurably(path, text)
  await run('systemctl', ['daemon-reload'])
  await run('systemctl', ['enable', '--quiet', unit])
  log(`${path} is ${changed ? 'written' : 'as it was'}; ${unit} starts with the computer`)
  // Returns when everything serves. A restart does not end the machines.
  await run('systemctl', [changed ? 'restart' : 'start', unit], { timeout_seconds: START_SECONDS }).catch((error) => {
    const last = journalOf(unit).slice(-SHOWN_LINES).join('\n')
    throw new Error(`${unit} did not start. The end of its journal:\n${last}`, { cause: error })
  })
  log(`${unit} serves: ${settings.base_url}; its logs: journalctl --identifier ${identifierOf(unit)} --follow`)
  const first_key = journalOf(unit).findLast((line) => line.includes('sfk_'))
  if (first_key !== undefined) log(first_key)
  return 0
}

async function uninstallUnit({ log, unit }) {
  const path = join(UNITS, unit)
  if (!existsSync(path)) {
    log(`there is no ${path}`)
    return 0
  }
  await run('systemctl', ['disable', '--quiet', '--now', unit], { timeout_seconds: STOP_SECONDS + 30 })
  rmSync(path)
  await run('systemctl', ['daemon-reload'])
  log(`${unit} is stopped and removed; machines keep running: \`npm start\` adopts them, \`npm run clean\` ends them`)
  return 0
}

function showUnit({ unit }) {
  return spawnSync('systemctl', ['status', '--no-pager', unit], { stdio: 'inherit' }).status ?? 1
}

function identifierOf(unit) {
  return unit.replace('.service', '')
}

function journalOf(unit) {
  const { stdout } = spawnSync('journalctl', ['--identifier', identifierOf(unit), '--boot', '--output', 'cat', '--no-pager'], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  })
  return (stdout ?? '').split('\n')
}

async function writeDurably(path, text) {
  const unfinished = `${path}.new`
  const file = await open(unfinished, 'w', 0o644)
  await file.writeFile(text)
  await file.sync()
  await file.close()
  await rename(unfinished, path)
}
