// `npm run bench -- NAME …`: the same set-up as `npm start`, then the benchmarks of tests/bench; all of them without a name.
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { install } from './setup/install.mjs'
import { loadSettings } from './setup/load.mjs'
import { report } from './setup/main.mjs'
import { CLONE } from './setup/packages.mjs'
import { pythonForTests } from './setup/python.mjs'

await report(async () => {
  const { settings, rest } = loadSettings()
  mkdirSync(settings.cache_dir, { recursive: true })
  const log = (line) => process.stderr.write(`${line}\n`)
  const { node } = await install({ settings, embedded_postgres: true, log })
  const env = { ...process.env, BERTH_CACHE_DIR: settings.cache_dir, ...(await pythonForTests({ settings, log })) }
  const main = join(CLONE, 'tests', 'bench', 'main.ts')
  const { status, signal } = spawnSync(node, ['--disable-warning=ExperimentalWarning', main, ...rest], {
    cwd: CLONE,
    env,
    stdio: 'inherit',
  })
  if (signal) throw new Error(`The benchmark was ended by ${signal}.`)
  return status
})
