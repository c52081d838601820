import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cachedBuild, exists, run, timed } from './cached-build.mjs'
import { installDebian, ISOLATION, rootFlags } from './debian-root.mjs'
import { ensurePackages } from './packages.mjs'
import { extendedBy, parseRecipe } from './template-recipe.mjs'

const TEMPLATES = fileURLToPath(new URL('../../templates/', import.meta.url))

export const TEMPLATE_DEBIAN_PACKAGES = ['debian-archive-keyring', 'erofs-utils', 'mmdebstrap']

const MMDEBSTRAP_FLAGS = rootFlags('minbase')
// Clusters of 16 KiB give 192 MB (4 KiB: 212, uncompressed: 379) and the fastest cold start of Node and Python. A fixed UUID makes the
// image reproducible.
// -x-1 omits extended attributes: Debian ships only file capabilities, which gVisor ignores.
const MKFS_FLAGS = ['-zlz4hc', '-C16384', '-x-1', '-U00000000-0000-4000-8000-000000000000', '--quiet']
// A fixed date for build programs, such as the day of a password's last change.
const BUILD_DATE = '1750000000'

/** The first call takes about a minute and needs root. */
export async function ensureTemplate({ name, cache_dir, log }) {
  const recipe = await readRecipe(name)
  const folder = await cachedBuild({
    parent: join(cache_dir, 'templates'),
    key: `${name}-${recipe.hash}`,
    build: (place) => buildTemplate({ ...place, recipe, log }),
  })
  const manifest = JSON.parse(await readFile(join(folder, 'manifest.json'), 'utf8'))
  const image_path = join(folder, 'image.erofs')
  const { size } = await stat(image_path)
  if (size !== manifest.size_bytes)
    throw new Error(`${image_path} has ${size} bytes, not ${manifest.size_bytes}. Delete ${folder} and start again.`)
  return { name, image_path, digest: manifest.digest, size_bytes: manifest.size_bytes, settings: manifest.settings }
}

export async function templateNames() {
  return (await readdir(TEMPLATES)).sort()
}

export async function isTemplateBuilt({ name, cache_dir }) {
  const { hash } = await readRecipe(name)
  return exists(join(cache_dir, 'templates', `${name}-${hash}`))
}

async function readRecipe(name) {
  const json = await recipeText(name)
  const extended = extendedBy(json)
  const extended_json = extended === undefined ? undefined : await recipeText(extended)
  const customize = await customizing(extended === undefined ? [name] : [extended, name])
  const files = await filesOf(name)
  const architecture = await debianArchitecture()
  const flags = [MMDEBSTRAP_FLAGS.join(' '), MKFS_FLAGS.join(' '), BUILD_DATE]
  const parts = [
    json,
    ...(extended_json === undefined ? [] : [extended_json]),
    ...(await Promise.all(customize.map((script) => readFile(script, 'utf8')))),
    ...files.flatMap(({ path, text, mode }) => [path, text, mode]),
    architecture,
    ...flags,
  ]
  const hash = createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16)
  const recipe = parseRecipe(json, extended_json)
  const npm_packages = recipe.npm_packages.filter((each) => each.architecture === undefined || each.architecture === architecture)
  return { ...recipe, npm_packages, hash, customize, files, architecture }
}

/** The script of the extended recipe runs first. */
async function customizing(names) {
  const scripts = names.map((name) => join(TEMPLATES, name, 'customize.sh'))
  const are_there = await Promise.all(scripts.map(exists))
  return scripts.filter((_, at) => are_there[at])
}

async function filesOf(name) {
  const folder = join(TEMPLATES, name, 'root')
  if (!(await exists(folder))) return []
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => relative(folder, join(entry.parentPath, entry.name)))
  return Promise.all(
    paths.sort().map(async (path) => {
      const { mode } = await stat(join(folder, path))
      return { path, text: await readFile(join(folder, path), 'utf8'), mode: (mode & 0o111) === 0 ? 0o644 : 0o755 }
    }),
  )
}

async function recipeText(name) {
  const path = join(TEMPLATES, name, 'recipe.json')
  if (!/^[a-z][a-z0-9-]*$/.test(name) || !(await exists(path))) throw new Error(`There is no template recipe named ${name}.`)
  return readFile(path, 'utf8')
}

async function buildTemplate({ work, output, run, recipe, log }) {
  if (process.getuid() !== 0) throw new Error('Building a template needs root.')
  log(`template ${recipe.name} is built once, which takes a minute or more`)
  await ensurePackages(TEMPLATE_DEBIAN_PACKAGES, { log, run })
  const root = join(work, 'root')
  const step = (what, action) => timed(log, `template ${recipe.name}: ${what}`, action)
  await step('Debian is installed', () => installDebian({ ...debianOf(recipe), root, run }))
  await step('npm packages are unpacked', () => unpackNpmPackages({ root, work, recipe, run }))
  for (const file of recipe.files) await placeFile(root, file)
  await step('customized', () => customize({ root, recipe, run }))
  const image = join(output, 'image.erofs')
  await step('image is written', () => writeImage({ root, image, run }))
  const manifest = {
    name: recipe.name,
    recipe_hash: recipe.hash,
    architecture: recipe.architecture,
    digest: await fileDigest(image, 'sha256', 'hex'),
    size_bytes: (await stat(image)).size,
    settings: recipe.settings,
    user: recipe.user,
    debian_packages: await debianPackages(root, run),
    npm_packages: Object.fromEntries(recipe.npm_packages.map((each) => [each.name, each.version])),
  }
  await writeFile(join(output, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`)
}

function debianOf({ suite, debian_packages, debian_path_excludes, debian_path_includes }) {
  const paths = [
    ...debian_path_excludes.map((path) => `--dpkgopt=path-exclude=${path}`),
    ...debian_path_includes.map((path) => `--dpkgopt=path-include=${path}`),
  ]
  const flags = [...MMDEBSTRAP_FLAGS, ...paths]
  return { suite, packages: debian_packages, flags, env: { SOURCE_DATE_EPOCH: BUILD_DATE }, timeout_seconds: 1200 }
}

async function unpackNpmPackages({ root, work, recipe, run }) {
  for (const { name, version, integrity, into } of recipe.npm_packages) {
    await run('npm', ['pack', `${name}@${version}`, '--pack-destination', work, '--ignore-scripts'], {
      cwd: work,
      timeout_seconds: 600,
    }).catch((error) => {
      throw error.code === 'ENOENT' ? new Error('Building a template needs npm, which was not found.', { cause: error }) : error
    })
    const archive = join(work, `${name.replace('@', '').replace('/', '-')}-${version}.tgz`)
    const found = `sha512-${await fileDigest(archive, 'sha512', 'base64')}`
    if (found !== integrity) throw new Error(`The npm package ${name}@${version} is not the one in the recipe: its integrity is ${found}.`)
    const target = join(root, into)
    await mkdir(target, { recursive: true })
    await run('tar', ['--extract', '--gzip', '--no-same-owner', '--strip-components=1', '--file', archive, '--directory', target])
  }
}

async function placeFile(root, { path, text, mode }) {
  const target = join(root, path)
  await mkdir(dirname(target), { recursive: true, mode: 0o755 })
  await writeFile(target, text, { mode })
}

async function customize({ root, recipe, run }) {
  const { name, uid, gid, home, shell } = recipe.user
  const user = { USER_NAME: name, USER_UID: String(uid), USER_GID: String(gid), USER_HOME: home, USER_SHELL: shell }
  const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
  for (const script of recipe.customize) {
    await run('unshare', [...ISOLATION, '/bin/sh', script, root], {
      env: { ...user, PATH, LC_ALL: 'C.UTF-8', SOURCE_DATE_EPOCH: BUILD_DATE },
      timeout_seconds: 120,
    })
  }
}

// Files keep the times of their packages, else Python would compile every module at each start. Files of the build get the newest package's
// time, so that builds are reproducible.
async function writeImage({ root, image, run }) {
  const newest = await newestPackagedFile(root, run)
  await run('find', [root, '-newermt', `@${newest}`, '-exec', 'touch', '--no-dereference', '--date', `@${newest}`, '{}', '+'])
  await run('mkfs.erofs', [...MKFS_FLAGS, `-T${newest}`, '--preserve-mtime', image, root], { timeout_seconds: 600 })
}

async function newestPackagedFile(root, run) {
  const script =
    'cd "$1" && cat var/lib/dpkg/info/*.md5sums | cut -c35- | xargs -d "\\n" stat --format %Y 2>/dev/null | sort -n | tail -n 1'
  const printed = await run('sh', ['-c', script, 'sh', root])
  const newest = Number(printed.trim())
  if (!(newest > 0)) throw new Error('No packaged file was found in the new root.')
  return newest
}

async function debianPackages(root, run) {
  const printed = await run('dpkg-query', [`--admindir=${root}/var/lib/dpkg`, '--show', '--showformat', '${Package} ${Version}\\n'])
  return Object.fromEntries(
    printed
      .trim()
      .split('\n')
      .map((line) => line.split(' ')),
  )
}

async function debianArchitecture() {
  const printed = await run('dpkg', ['--print-architecture']).catch((error) => {
    throw new Error('Templates are built on Debian or Ubuntu: dpkg was not found.', { cause: error })
  })
  return printed.trim()
}

async function fileDigest(path, algorithm, encoding) {
  const hash = createHash(algorithm)
  for await (const chunk of createReadStream(path)) hash.update(chunk)
  return hash.digest(encoding)
}
