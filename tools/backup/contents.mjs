// `backup.json` lists every file below `data/`.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { exists, run } from '../setup/cached-build.mjs'

export const FORMAT = 1
export const POOL = 'pool.img'
export const DATABASE = 'pg'
/** Names that a backup contains. Berth creates all others again. */
export const KEPT = ['agents', 'config.json', 'engines', 'fences', 'keys', 'layers', 'trees', 'uploads', DATABASE, POOL]
const COPY_SECONDS = 7 * 24 * 3600
const NAMED_MAX = 5

/**
 * Entries are in a fixed order and follow links; a directory has a trailing slash. The pool has no digest, because it is large and mostly
 * empty, and btrfs has checksums of its own.
 */
export async function contentsOf(folder, names, signal) {
  const found = []
  for (const name of names.toSorted()) await list(folder, name, found, signal)
  return found
}

export function differences(listed, found) {
  const textsOf = (entries) => new Map(entries.map((entry) => [entry.path, JSON.stringify(entry)]))
  const [before, after] = [textsOf(listed), textsOf(found)]
  const missing = [...before.keys()].filter((path) => !after.has(path)).map((path) => `${path} is missing`)
  const added = [...after.keys()].filter((path) => !before.has(path)).map((path) => `${path} was not in it`)
  const changed = [...before].filter(([path, text]) => after.has(path) && after.get(path) !== text).map(([path]) => `${path} is damaged`)
  return [...missing, ...added, ...changed]
}

export async function readWhole(source, signal) {
  const path = join(source, 'backup.json')
  if (!(await exists(path))) throw new Error(`${source} is not a backup, or not a whole one: it has no backup.json.`)
  const manifest = parse(await readFile(path, 'utf8'), path)
  if (manifest.format !== FORMAT)
    throw new Error(`${path} is of format ${manifest.format}, and this version of Berth reads format ${FORMAT}.`)
  const names = await readdir(join(source, 'data'))
  const wrong = differences(manifest.contents, await contentsOf(join(source, 'data'), names, signal))
  const others = names.filter((name) => !KEPT.includes(name)).map((name) => `${name} is not of Berth`)
  if (wrong.length + others.length === 0) return { ...manifest, names }
  const shown = [...others, ...wrong].slice(0, NAMED_MAX)
  throw new Error(`${source} is not as it was made (${wrong.length + others.length} differences):\n${shown.join('\n')}`)
}

/** The pool is copied as a sparse file. */
export function copy(from, to, { sparse, signal }) {
  const how = ['--archive', '--dereference', '--reflink=auto', `--sparse=${sparse ? 'always' : 'auto'}`, '--no-target-directory']
  // The kernel kills cp if this process ends, so nothing still writes when the lock is released.
  const bound = ['--pdeathsig', 'KILL', '--', 'cp']
  return run('setpriv', [...bound, ...how, '--', from, to], { timeout_seconds: COPY_SECONDS, signal })
}

export function sync(path) {
  return run('sync', ['--file-system', path], { timeout_seconds: COPY_SECONDS })
}

async function list(folder, path, found, signal) {
  signal?.throwIfAborted()
  const seen = await stat(join(folder, path))
  if (seen.isDirectory()) {
    found.push({ path: `${path}/` })
    for (const name of (await readdir(join(folder, path))).toSorted()) await list(folder, join(path, name), found, signal)
  } else if (seen.isFile()) {
    const sha256 = path === POOL ? {} : { sha256: await digestOf(join(folder, path), signal) }
    found.push({ path, bytes: seen.size, ...sha256 })
  } else throw new Error(`${join(folder, path)} is neither a file nor a directory.`)
}

async function digestOf(path, signal) {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), hash, { signal })
  return hash.digest('hex')
}

function parse(text, path) {
  try {
    const value = JSON.parse(text)
    if (Array.isArray(value?.contents)) return value
  } catch (error) {
    throw new Error(`${path} is damaged: ${error.message}.`, { cause: error })
  }
  throw new Error(`${path} is damaged: it lists nothing.`)
}

export async function writeDurably(folder, name, text) {
  const file = await open(join(folder, name), 'w', 0o600)
  await file.writeFile(text)
  await file.sync().finally(() => file.close())
  const directory = await open(folder)
  await directory.sync().finally(() => directory.close())
}
