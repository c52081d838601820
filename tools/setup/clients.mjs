// The packages of the clients, which npm installs from the clone as they lie there.
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
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
const STAMP = join(CLONE, 'cli', 'dist', '.sources-sha256')

/** Builds them where their sources have changed. A client that npm has installed is a link to the clone, and follows. */
export async function ensureClients({ node, log }) {
  // An installation without what builds, such as a container, is no place to install clients from.
  if (!existsSync(join(CLONE, 'node_modules', 'esbuild')) || !existsSync(join(CLONE, 'node_modules', 'typescript'))) return
  const wanted = await digestOf(SOURCES)
  if ((await readFile(STAMP, 'utf8').catch(() => '')) === wanted) return
  try {
    await timed(log, 'clients are built', () =>
      run(node, ['--disable-warning=ExperimentalWarning', join(CLONE, 'tools/sdk/bundle.ts')], { timeout_seconds: 300 }),
    )
    await mkdir(join(STAMP, '..'), { recursive: true })
    await writeFile(STAMP, wanted)
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
