import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { CLONE } from '../setup/packages.mjs'

/** Inside node_modules, so that the cache is removed with it. */
export const CACHE = join(CLONE, 'node_modules', '.cache', 'berth')

export function succeeds(program, args) {
  const options = { cwd: CLONE, encoding: 'utf8', maxBuffer: 64 << 20 }
  const { status, stdout, stderr, error } = spawnSync(process.execPath, [join(CLONE, 'node_modules', program), ...args], options)
  if (status !== 0) throw new Error(`${program} found:\n${stdout}${stderr}${error?.message ?? ''}`)
}
