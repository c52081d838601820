import { chmod, readdir, rm, stat, statfs, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { ensureAccounts } from '../setup/accounts.mjs'
import { exists, run, timed } from '../setup/cached-build.mjs'
import { layoutOf } from '../setup/config.mjs'
import { ownedFolders } from '../setup/owned-folders.mjs'
import { copy, KEPT, POOL, readWhole, sync, writeDurably } from './contents.mjs'

/** Names that may be in an empty data directory. */
const NOBODYS = ['lost+found', 'supervisor.lock']
const MARGIN_BYTES = 1 << 30
const ALLOCATE_SECONDS = 3600
const NAMED_MAX = 5

/**
 * Requires the supervisor's lock. While `.restoring` exists Berth refuses to start, and the same command starts the restore again.
 * Throws before it writes anything if the backup is damaged, the directory is not empty, or the disk is too small. A later failure leaves
 * the directory empty.
 */
export async function restore({ settings, folder: source, log, signal }) {
  const layout = layoutOf(settings)
  await checkEmpty(settings.data_dir, layout)
  const manifest = await timed(log, 'the backup is checked', () => readWhole(source, signal))
  await removeRestored(settings.data_dir) // a restore that was killed may have left these files
  await checkRoom(settings.data_dir, manifest.contents)
  const accounts = await ensureAccounts({ log })
  try {
    await writeDurably(settings.data_dir, basename(layout.restoring), `${source}\n`)
    for (const name of manifest.names) await timed(log, `${name} is copied`, () => bringBack(name, { source, layout, settings, signal }))
    await giveAway(layout, accounts)
    await sync(settings.data_dir)
    signal.throwIfAborted()
  } catch (error) {
    await removeRestored(settings.data_dir)
    await rm(layout.restoring, { force: true })
    throw error
  }
  await rm(layout.restoring)
  await sync(settings.data_dir)
  if (manifest.database === 'own') log('the database is your own: put back the dump that belongs to this backup before the start')
  log(`${settings.data_dir} is as it was at ${manifest.made_at}: start Berth, then ask the doctor`)
}

async function bringBack(name, { source, layout, settings, signal }) {
  const to = join(settings.data_dir, name)
  if (name === POOL) {
    // As in hostd: preallocated blocks help only if they are overwritten in place. Some file systems lack this attribute.
    await writeFile(to, '', { mode: 0o600 })
    await run('chattr', ['+C', to]).catch(() => undefined)
  }
  await copy(join(source, 'data', name), to, { sparse: name === POOL, signal })
  if (name !== POOL) return
  // Allocates the whole image, because a full disk would turn a sparse pool read-only for all tenants.
  const { size } = await stat(layout.pool_image)
  await run('fallocate', ['--length', `${size}`, layout.pool_image], { timeout_seconds: ALLOCATE_SECONDS, signal })
}

async function giveAway(layout, accounts) {
  const owned = [{ path: layout.postgres_data, mode: 0o700, owner: accounts.postgres }, ...ownedFolders(layout, accounts)]
  for (const { path, mode, owner } of owned) {
    if (!(await exists(path))) continue
    await run('chown', ['--recursive', '--no-dereference', `${owner.uid}:${owner.gid}`, path])
    await chmod(path, mode)
  }
  // The pid may belong to another process here, and PostgreSQL would refuse to start.
  await rm(join(layout.postgres_data, 'postmaster.pid'), { force: true })
}

async function checkEmpty(data_dir, { restoring }) {
  const found = (await readdir(data_dir)).filter((name) => !NOBODYS.includes(name))
  const ours = found.includes(basename(restoring)) ? [basename(restoring), ...KEPT] : []
  const others = found.filter((name) => !ours.includes(name))
  if (others.length === 0) return
  throw new Error(`${data_dir} is not empty (${others.slice(0, NAMED_MAX).join(', ')}): a restore overwrites nothing.`)
}

async function removeRestored(data_dir) {
  for (const name of KEPT) await rm(join(data_dir, name), { recursive: true, force: true })
}

async function checkRoom(data_dir, contents) {
  const { bavail, bsize } = await statfs(data_dir)
  const needed = contents.reduce((sum, { bytes = 0 }) => sum + bytes, MARGIN_BYTES)
  const gib = (bytes) => (bytes / 2 ** 30).toFixed(1)
  if (bavail * bsize >= needed) return
  throw new Error(`${data_dir} has ${gib(bavail * bsize)} GiB free, and the backup needs ${gib(needed)}: its pool takes its whole size.`)
}
