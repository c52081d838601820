// machine/runsc/README.md explains why runsc is built here.
import { createHash } from 'node:crypto'
import { copyFile, mkdir, readFile, readdir, realpath, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cachedBuild, exists, run, timed } from './cached-build.mjs'

const RECIPE = fileURLToPath(new URL('../../machine/runsc/', import.meta.url))
const BUILD_FLAGS = ['-mod=vendor', '-trimpath', '-buildvcs=false']
const LINKER_FLAGS = '-s -w'

/**
 * The first call builds runsc (75 s on 2 cores with empty Go caches). A checkpoint can be restored only by the `version` that wrote it. On
 * a host without Go, BERTH_RUNSC names a binary.
 */
export async function ensureRunsc({ cache_dir, log }) {
  const given = process.env.BERTH_RUNSC
  if (given) return { path: given, version: await versionOfGiven(given) }
  const { key, version } = await identify()
  const folder = await cachedBuild({
    parent: join(cache_dir, 'runsc'),
    key,
    build: (place) => buildRunsc({ ...place, version, log }),
  })
  const path = join(folder, 'runsc')
  const printed = await versionOf(path)
  if (printed !== version) throw new Error(`${path} says it is ${printed}, not ${version}. Delete ${folder} and start again.`)
  return { path, version }
}

/** The key changes if and only if an input of the build changes. */
export async function recipeKey({ recipe, go_version, go_platform }) {
  const hash = createHash('sha256')
  const add = (name, content) => hash.update(`${name}\0${content.length}\0`).update(content)
  add('go version', Buffer.from(go_version))
  add('platform', Buffer.from(go_platform))
  add('flags', Buffer.from([...BUILD_FLAGS, LINKER_FLAGS].join(' ')))
  for (const name of await recipeFiles(recipe)) add(name, await readFile(join(recipe, name)))
  return hash.digest('hex').slice(0, 32)
}

export function parseVersion(output) {
  return /^runsc version (\S+)$/m.exec(output)?.[1]
}

async function identify() {
  const [go_version, GOOS, GOARCH] = (await go(['env', 'GOVERSION', 'GOOS', 'GOARCH'], { cwd: RECIPE, timeout_seconds: 300 }))
    .trim()
    .split('\n')
  const key = await recipeKey({ recipe: RECIPE, go_version, go_platform: `${GOOS}/${GOARCH}` })
  return { key, version: `berth-${key.slice(0, 12)}` }
}

async function buildRunsc({ work, output, run, version, log }) {
  const options = { cwd: work, timeout_seconds: 1800 }
  log(`runsc ${version} is built once, which takes a minute or two`)
  await copyRecipe(work)
  await timed(log, "runsc: gVisor's source is there", () => go(['mod', 'vendor'], options, run))
  await timed(log, 'runsc: seccomp filters are compiled', () => go(['run', ...BUILD_FLAGS, '.', 'vendor'], options, run))
  const linker_flags = `${LINKER_FLAGS} -X gvisor.dev/gvisor/runsc/version.version=${version}`
  const path = join(output, 'runsc')
  await timed(log, 'runsc: built', () =>
    go(['build', ...BUILD_FLAGS, '-ldflags', linker_flags, '-o', path, 'gvisor.dev/gvisor/runsc'], options, run),
  )
  const printed = await versionOf(path)
  if (printed !== version) throw new Error(`The runsc just built says it is ${printed}, not ${version}.`)
}

async function go(args, options, start = run) {
  // The user's GOFLAGS and GOWORK are not part of the key, so they must not change the result.
  const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: '', GOWORK: 'off' }
  try {
    return await start('go', args, { env, ...options })
  } catch (error) {
    if (error.code === 'ENOENT') {
      throw new Error('Building runsc needs Go 1.21 or newer: install Go, or name a runsc binary in BERTH_RUNSC.', { cause: error })
    }
    if (/invalid go version|toolchain not available|requires go >=/.test(error.message)) {
      throw new Error(
        'This Go is too old to build runsc and could not fetch a newer one: install a current Go, ' +
          'or name a runsc binary in BERTH_RUNSC.',
        { cause: error },
      )
    }
    throw error
  }
}

export async function copyRecipe(folder) {
  for (const name of await recipeFiles(RECIPE)) {
    await mkdir(dirname(join(folder, name)), { recursive: true })
    await copyFile(join(RECIPE, name), join(folder, name))
  }
}

// Omits the README, because an edit of it would change the version and make every checkpoint unrestorable.
async function recipeFiles(recipe) {
  const names = await readdir(recipe, { recursive: true })
  return names.filter((name) => isOfRecipe(name)).sort()
}

function isOfRecipe(name) {
  if (name.startsWith('patches/')) return name === 'patches/series' || name.endsWith('.patch')
  return name === 'go.mod' || name === 'go.sum' || (name.endsWith('.go') && !name.endsWith('_test.go'))
}

async function versionOfGiven(path) {
  if (!(await exists(path)) || !(await stat(path)).isFile()) throw new Error(`BERTH_RUNSC names ${path}, which is not a file.`)
  const version = await versionOf(await realpath(path))
  if (!version) throw new Error(`BERTH_RUNSC names ${path}, which does not print a runsc version.`)
  return version
}

async function versionOf(path) {
  return parseVersion(await run(path, ['--version'], { timeout_seconds: 30 }))
}
