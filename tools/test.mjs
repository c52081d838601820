// `npm test [-- lint go unit acceptance]`: any other word selects files whose path contains it. Tests without machines run during the
// set-up.
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { startEnclosed } from './enclosure/enclosure.mjs'
import { ensureClients } from './setup/clients.mjs'
import { installMachines, installPackages } from './setup/install.mjs'
import { loadSettings } from './setup/load.mjs'
import { report } from './setup/main.mjs'
import { CLONE, ensurePackages } from './setup/packages.mjs'
import { pythonForTests } from './setup/python.mjs'

const RUNNER = join(CLONE, 'tests', 'support', 'run.ts')
/** Packages that tests need, but Berth does not. */
const TEST_DEBIAN_PACKAGES = ['iptables', 'nftables', 'openssh-client', 'python3-venv', 'rsync']
const log = (line) => process.stdout.write(`${line}\n`)

await report(async () => {
  const { settings, rest } = loadSettings()
  mkdirSync(settings.cache_dir, { recursive: true })
  const { node, more: python } = await installPackages({
    settings,
    log,
    async more() {
      await ensurePackages(TEST_DEBIAN_PACKAGES, { log })
      return pythonForTests({ settings, log })
    },
  })
  const { child, ended, note } = startEnclosed([node, '--disable-warning=ExperimentalWarning', RUNNER, ...rest], {
    env: { ...process.env, BERTH_CACHE_DIR: settings.cache_dir, ...python },
    shown: [settings.cache_dir, dirname(node)],
    ipc: true,
  })
  // The test runner may have ended before the machines are built.
  child.once('message', async () => {
    const told = await machinesFor(settings, node)
    if (told.env !== undefined) note({ hostd: told.env.BERTH_TEST_HOSTD })
    if (child.connected) child.send(told, () => undefined)
  })
  return ended
})

/** Returns the environment, or the reason why there are no machines. */
async function machinesFor(settings, node) {
  const started = performance.now()
  try {
    const { binaries, runsc, templates } = await installMachines({ settings, log })
    // Builds the clients now: test services have one minute to start, which the first build would use up.
    await ensureClients({ node, log })
    log(`set-up is complete (${((performance.now() - started) / 1000).toFixed(1)} s)`)
    const image = (wanted) => templates.find(({ name }) => name === wanted).image_path
    return {
      env: {
        BERTH_TEST_RUNSC: runsc.path,
        BERTH_TEST_AGENT: binaries.agent,
        BERTH_TEST_HOSTD: binaries.hostd,
        BERTH_TEST_LAYER: image('base'),
        BERTH_TEST_TEMPLATE: image('base'),
        BERTH_TEST_BROWSER_TEMPLATE: image('browser'),
      },
    }
  } catch (error) {
    log(`the set-up failed: ${error.message}`)
    return { failed: `the set-up failed: ${error.message}` }
  }
}
