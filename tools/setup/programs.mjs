// `node tools/setup/programs.mjs FOLDER`: builds the programs for an image or a host without Go. There BERTH_HOSTD, BERTH_AGENT,
// BERTH_PORTD, BERTH_SUPERVISOR and BERTH_RUNSC name them. Needs neither privileges nor npm packages.
import { copyFile, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { checkGo, ensureBinaries } from './binaries.mjs'
import { report } from './main.mjs'
import { ensureRunsc } from './runsc.mjs'
import { SettingsError } from './settings.mjs'

const log = (line) => process.stdout.write(`${line}\n`)

await report(async () => {
  const [folder, ...rest] = process.argv.slice(2)
  if (folder === undefined || rest.length > 0) throw new SettingsError('Usage: node tools/setup/programs.mjs FOLDER')
  const cache_dir = await mkdtemp(join(tmpdir(), 'berth-programs-'))
  try {
    const settings = { cache_dir, runsc: '', hostd: '', agent: '', portd: '', supervisor: '' }
    await checkGo({ settings })
    const programs = { ...(await ensureBinaries({ settings, log })), runsc: (await ensureRunsc({ cache_dir, log })).path }
    await mkdir(folder, { recursive: true })
    for (const [name, path] of Object.entries(programs)) await copyFile(path, join(resolve(folder), name))
  } finally {
    await rm(cache_dir, { recursive: true, force: true })
  }
})
