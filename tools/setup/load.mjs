import { createHash } from 'node:crypto'
import { existsSync, readFileSync, realpathSync, statfsSync, statSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { resolveSettings, SettingsError } from './settings.mjs'

const GIB = 2 ** 30

/** `rest` begins at the first argument that is not a flag, because a command that follows has flags of its own. */
export function loadSettings(argv = process.argv.slice(2), env = process.env) {
  const { flags, rest } = parseFlags(argv)
  const { config = env.BERTH_CONFIG, ...others } = flags
  const data_dir = others.data_dir ?? env.BERTH_DATA_DIR ?? '/var/lib/berth'
  const file = readFile(config, join(data_dir, 'config.json'))
  return { ...resolveSettings({ flags: others, env, file, facts }), rest }
}

export function parseFlags(argv) {
  const flags = {}
  let at = 0
  for (; at < argv.length && argv[at].startsWith('--') && argv[at] !== '--'; at += 1) {
    const [, name, , value] = /^--([^=]+)(=(.*))?$/s.exec(argv[at]) ?? []
    if (name === undefined) throw new SettingsError(`${argv[at]} is not a flag.`)
    if (value === undefined && at + 1 >= argv.length) throw new SettingsError(`--${name} needs a value.`)
    flags[name.replaceAll('-', '_')] = value ?? argv[(at += 1)]
  }
  return { flags, rest: argv.slice(argv[at] === '--' ? at + 1 : at) }
}

/** Part of the names of this installation's resources on the computer. */
export function instanceOf(data_dir) {
  return createHash('sha256').update(realPath(data_dir)).digest('hex').slice(0, 4)
}

function facts({ data_dir }) {
  const place = existingParent(data_dir)
  const { bavail, blocks, bsize } = statfsSync(place)
  const pool = join(data_dir, 'pool.img')
  return {
    instance: instanceOf(data_dir),
    memory_mib: Math.floor(totalmem() / 2 ** 20),
    cpus: availableParallelism(),
    free_gib: (bavail * bsize) / GIB,
    disk_gib: (blocks * bsize) / GIB,
    ...(existsSync(pool) ? { pool_gib: Math.max(4, Math.round(statSync(pool).size / GIB)) } : {}),
  }
}

function readFile(named, usual) {
  const path = named ?? usual
  if (named === undefined && !existsSync(usual)) return {}
  let value
  try {
    value = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    throw new SettingsError(`The configuration file ${path} cannot be read: ${error.message}.`)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new SettingsError(`The configuration file ${path} must hold an object.`)
  return value
}

// The directory may not exist yet, so its existing parent is resolved.
function realPath(path) {
  if (existsSync(path)) return realpathSync(path)
  return join(realPath(dirname(path)), basename(path))
}

function existingParent(path) {
  return existsSync(path) ? path : existingParent(dirname(path))
}
