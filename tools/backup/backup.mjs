import { mkdir, readdir, readFile, readlink, realpath, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { exists, run, timed } from '../setup/cached-build.mjs'
import { layoutOf } from '../setup/config.mjs'
import { CLONE } from '../setup/packages.mjs'
import { contentsOf, copy, DATABASE, FORMAT, KEPT, POOL, sync, writeDurably } from './contents.mjs'

/** Requires the supervisor's lock. The folder `target` appears only when the copy is complete and on disk. A failure leaves nothing. */
export async function backup({ settings, folder: target, log, signal }) {
  if (await exists(target)) throw new Error(`${target} is there already: a backup has a name of its own.`)
  const names = await namesOf(settings, layoutOf(settings))
  await checkAtRest(layoutOf(settings))
  const unfinished = join(dirname(target), `.${basename(target)}.unfinished`)
  await rm(unfinished, { recursive: true, force: true }) // a backup that was killed may have left this folder
  try {
    await mkdir(join(unfinished, 'data'), { recursive: true, mode: 0o700 })
    await fill(unfinished, names, { settings, log, signal })
    signal.throwIfAborted()
    await rename(unfinished, target)
    await sync(dirname(target))
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
  if (settings.database_url !== '') log('the database is your own: take its backup (pg_dump) before the next start')
  log(`${target} is a whole backup; it holds keys: keep it as secret as the data`)
}

async function fill(unfinished, names, { settings, log, signal }) {
  const data = join(unfinished, 'data')
  for (const name of names) {
    const step = () => copy(join(settings.data_dir, name), join(data, name), { sparse: name === POOL, signal })
    await timed(log, `${name} is copied`, step)
  }
  // Digests are computed from the source, so that a restore also detects errors of the copy.
  const contents = await timed(log, 'digests are taken', () => contentsOf(settings.data_dir, names, signal))
  const { version } = JSON.parse(await readFile(join(CLONE, 'package.json'), 'utf8'))
  const database = settings.database_url === '' ? 'embedded' : 'own'
  await sync(unfinished)
  await writeDurably(unfinished, 'backup.json', JSON.stringify({ format: FORMAT, made_at: new Date(), version, database, contents }))
}

async function namesOf({ data_dir, database_url }, { restoring }) {
  if (await exists(restoring)) throw new Error(`A restore to ${data_dir} was not finished: run it again.`)
  const embedded = database_url === ''
  const names = (await readdir(data_dir)).filter((name) => KEPT.includes(name) && (embedded || name !== DATABASE))
  const missing = ['keys', POOL, ...(embedded ? [DATABASE] : [])].filter((name) => !names.includes(name))
  if (missing.length > 0) throw new Error(`${data_dir} is not an installation: it has no ${missing.join(', no ')}.`)
  return names
}

/** Children of the supervisor and machines may still run when the supervisor has ended. */
async function checkAtRest({ pool_image, postgres_data }) {
  const loops = await run('losetup', ['--list', '--noheadings', '--output', 'NAME', '--associated', pool_image])
  if (loops.trim() !== '') {
    throw new Error(
      `The pool is still in use (${loops.trim()}). Run \`npm run clean\`, which ends the machines that still run: suspend before, with Berth running, what shall keep its memory.`,
    )
  }
  const server = await serverOf(postgres_data)
  if (server !== undefined) throw new Error(`The database still runs (process ${server}): \`npm run clean\` ends it.`)
}

/** The pid file may be stale and its pid reused. */
async function serverOf(postgres_data) {
  const noted = await readFile(join(postgres_data, 'postmaster.pid'), 'utf8').catch(() => '')
  const pid = Number.parseInt(noted, 10)
  if (!(pid > 1)) return undefined
  const folder = await readlink(`/proc/${pid}/cwd`).catch(() => undefined)
  return folder === (await realpath(postgres_data)) ? pid : undefined
}
