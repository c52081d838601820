import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile, rename, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run, timed } from './cached-build.mjs'

export const CLONE = fileURLToPath(new URL('../../', import.meta.url)).replace(/\/$/, '')

/** Each package has a program whose presence shows that the package is installed. */
const DEBIAN_PACKAGES = {
  'btrfs-progs': 'mkfs.btrfs',
  'ca-certificates': 'update-ca-certificates',
  'erofs-utils': 'mkfs.erofs',
  kmod: 'modprobe',
  mount: 'umount',
  passwd: 'useradd',
  tar: 'tar',
  'util-linux': 'setpriv',
}
const PROGRAM_FOLDERS = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

export async function ensureNodeModules({ log }) {
  const stamp = join(CLONE, 'node_modules', '.berth-lock-sha256')
  const wanted = createHash('sha256')
    .update(await readFile(join(CLONE, 'package-lock.json')))
    .digest('hex')
  if ((await readFile(stamp, 'utf8').catch(() => '')) === wanted) return
  if (await installedByHand()) return writeFile(stamp, wanted)
  await timed(log, 'npm packages are installed', async () => {
    try {
      await run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: CLONE, timeout_seconds: 900 })
    } catch (error) {
      throw new Error(`Installing npm packages failed.\n${error.message}`, { cause: error })
    }
  })
  await writeFile(`${stamp}.new`, wanted)
  await rename(`${stamp}.new`, stamp)
}

export async function ensureDebianPackages({ log }) {
  const missing = Object.entries(DEBIAN_PACKAGES)
    .filter(([, program]) => !hasProgram(program))
    .map(([name]) => name)
  if (missing.length === 0) return
  await timed(log, `Debian packages ${missing.join(', ')} are installed`, () => install(missing))
}

export async function ensurePackages(names, { log, run: runs = run }) {
  const missing = []
  for (const name of names) {
    const status = await runs('dpkg-query', ['--show', '--showformat', '${db:Status-Status}', name]).catch(() => 'unknown')
    if (status !== 'installed') missing.push(name)
  }
  if (missing.length === 0) return
  await timed(log, `Debian packages ${missing.join(', ')} are installed`, () => install(missing, runs))
}

export function hasProgram(name) {
  return PROGRAM_FOLDERS.map((folder) => join(folder, name)).find((path) => existsSync(path))
}

// npm writes its own lockfile last, so a newer one shows a complete installation.
async function installedByHand() {
  const times = await Promise.all(
    ['node_modules/.package-lock.json', 'package-lock.json'].map((name) => stat(join(CLONE, name)).catch(() => undefined)),
  )
  return times[0] !== undefined && times[0].mtimeMs >= times[1].mtimeMs
}

async function install(names, runs = run) {
  const options = { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }, timeout_seconds: 900 }
  const command = ['install', '--yes', '-qq', '--no-install-recommends', '-o', 'DPkg::Lock::Timeout=120', ...names]
  try {
    // First tries without new package lists, because fetching them takes longer than installing most packages.
    await runs('apt-get', command, options)
  } catch {
    try {
      await runs('apt-get', ['update', '-qq'], options)
      await runs('apt-get', command, options)
    } catch (error) {
      throw new Error(`Installing the Debian packages ${names.join(', ')} failed; install them by hand.\n${error.message}`, {
        cause: error,
      })
    }
  }
}
