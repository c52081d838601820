import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { cachedBuild, run, timed } from './cached-build.mjs'
import { CLONE } from './packages.mjs'

const MACHINE = join(CLONE, 'machine')
const NAMES = ['hostd', 'agent', 'portd', 'supervisor']
/** Tests and `go vet` use the same flags, and so the same build cache. */
export const GO_FLAGS = ['-trimpath', '-buildvcs=false']
const BUILD = ['build', ...GO_FLAGS, '-ldflags', '-s -w']

export async function ensureBinaries({ settings, log }) {
  const given = Object.fromEntries(NAMES.filter((name) => settings[name] !== '').map((name) => [name, settings[name]]))
  for (const [name, path] of Object.entries(given)) {
    if (!existsSync(path)) throw new Error(`The setting ${name} names ${path}, which is not there.`)
  }
  if (NAMES.every((name) => given[name])) return given
  const folder = await cachedBuild({
    parent: join(settings.cache_dir, 'machine'),
    key: await sourcesKey(),
    build: ({ output, run }) => timed(log, 'hostd, agent, portd and supervisor are built', () => build(output, run)),
  })
  return { ...Object.fromEntries(NAMES.map((name) => [name, join(folder, name)])), ...given }
}

async function build(output, start) {
  try {
    const args = [...BUILD, '-o', `${output}/`, ...NAMES.map((name) => `./cmd/${name}`)]
    await start('go', args, { cwd: MACHINE, env: goEnvironment(), timeout_seconds: 900 })
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
    throw new Error(
      'Building hostd, agent, portd and supervisor needs Go: install it, or name built ones in BERTH_HOSTD, BERTH_AGENT, BERTH_PORTD and BERTH_SUPERVISOR.',
      { cause: error },
    )
  }
}

/** Ignores the user's own Go settings, because they must not change the result. */
export function goEnvironment() {
  return { ...process.env, CGO_ENABLED: '0', GOFLAGS: '', GOWORK: 'off' }
}

async function sourcesKey() {
  const hash = createHash('sha256').update(JSON.stringify([BUILD, process.arch]))
  for (const path of await sourceFiles(MACHINE)) {
    const content = await readFile(path)
    hash.update(`${relative(MACHINE, path)}\0${content.length}\0`).update(content)
  }
  return hash.digest('hex').slice(0, 32)
}

// Omits runsc, a module of its own, and the dependencies, which go.sum fixes.
async function sourceFiles(folder) {
  const files = []
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory() && path !== join(MACHINE, 'runsc')) files.push(...(await sourceFiles(path)))
    if (entry.isFile() && !entry.name.endsWith('_test.go') && !entry.name.endsWith('.md')) files.push(path)
  }
  return files.sort()
}

/** Fails before the long set-up. */
export async function checkGo({ settings }) {
  if (settings.runsc !== '' && NAMES.every((name) => settings[name] !== '')) return
  await run('go', ['version']).catch((error) => {
    throw new Error(
      'Go was not found. Install Go 1.26 or newer, or name built programs in BERTH_RUNSC, BERTH_HOSTD, BERTH_AGENT, BERTH_PORTD and BERTH_SUPERVISOR.',
      { cause: error },
    )
  })
}
