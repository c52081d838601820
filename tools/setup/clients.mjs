import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run, timed } from './cached-build.mjs'
import { CLONE } from './packages.mjs'

const SOURCES = [
  'sdk/typescript/src',
  'sdk/typescript/package.json',
  'cli/src',
  'cli/package.json',
  'tools/sdk',
  'machine/cmd/guestssh',
  'machine/internal/guestssh',
  'machine/go.mod',
  'package-lock.json',
]
const BUNDLE = join(CLONE, 'tools', 'sdk', 'bundle.ts')
const DIST = join(CLONE, 'cli', 'dist')
const STAMP = join(DIST, '.sources-sha256')
/** Several services may start from one clone at once. Those that waited for the lock find the stamp. */
const LOCK = join(DIST, '.lock')

/** npm installs a client as a link to the clone, so clients are built here. */
export async function ensureClients({ node, log }) {
  // Without build tools, as in a container, no clients are built.
  if (!existsSync(join(CLONE, 'node_modules', 'esbuild')) || !existsSync(join(CLONE, 'node_modules', 'typescript'))) return
  const wanted = await digestOf(SOURCES)
  if ((await readFile(STAMP, 'utf8').catch(() => '')) === wanted) return
  try {
    await mkdir(DIST, { recursive: true })
    const build = [LOCK, node, '--disable-warning=ExperimentalWarning', BUNDLE, STAMP, wanted]
    await timed(log, 'clients are built', () => run('flock', build, { timeout_seconds: 300 }))
  } catch (error) {
    log(`the clients could not be built, and the service runs without them: ${error.message}`)
  }
}

async function digestOf(places) {
  const hash = createHash('sha256')
  for (const place of places) for (const file of await filesIn(place)) hash.update(`${file}\0`).update(await readFile(join(CLONE, file)))
  return hash.digest('hex')
}

async function filesIn(place) {
  if (/\.(json|mod)$/.test(place)) return [place]
  const entries = await readdir(join(CLONE, place), { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name).slice(CLONE.length + 1))
  return files.sort()
}
