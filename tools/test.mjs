// `npm test`: the same set-up as `npm start`, then every test. `npm test -- lint go unit acceptance` runs parts, any other word only
// the files whose path contains it.
import { spawn } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { install } from './setup/install.mjs'
import { loadSettings } from './setup/load.mjs'
import { report } from './setup/main.mjs'
import { CLONE } from './setup/packages.mjs'

const RUNNER = join(CLONE, 'tests', 'support', 'run.ts')

await report(async () => {
  const { settings, rest } = loadSettings()
  mkdirSync(settings.cache_dir, { recursive: true })
  const { binaries, node, runsc, templates } = await install({
    settings,
    embedded_postgres: true,
    log: (line) => process.stdout.write(`${line}\n`),
  })
  const image = templates[0].image_path
  const env = {
    ...process.env,
    BERTH_CACHE_DIR: settings.cache_dir,
    BERTH_TEST_RUNSC: runsc.path,
    BERTH_TEST_AGENT: binaries.agent,
    BERTH_TEST_HOSTD: binaries.hostd,
    BERTH_TEST_LAYER: image,
    BERTH_TEST_TEMPLATE: image,
    BERTH_TEST_BROWSER_TEMPLATE: templates.find(({ name }) => name === 'browser').image_path,
  }
  const child = spawn(node, ['--disable-warning=ExperimentalWarning', RUNNER, ...rest], { cwd: CLONE, env, stdio: 'inherit' })
  for (const name of ['SIGTERM', 'SIGINT']) process.on(name, () => child.kill(name))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => resolve(code ?? 1))
  })
})
