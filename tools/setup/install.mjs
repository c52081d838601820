// Everything that is the computer's, not one installation's: packages, programs, the engine, the platform's templates. Any number of
// starts may run it at once; each step does nothing when its result is there.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { checkGo, ensureBinaries } from './binaries.mjs'
import { checkHost } from './host.mjs'
import { CLONE, ensureDebianPackages, ensureNodeModules } from './packages.mjs'
import { ensurePostgres } from './postgres.mjs'
import { ensureRunsc } from './runsc.mjs'
import { ensureTemplate, isTemplateBuilt } from './template.mjs'

const PLATFORM_TEMPLATES = ['base', 'browser']
/** Nobody's first workspace waits for these: a start builds them beside the service that it starts. */
const LATE_TEMPLATES = ['browser']
const NODE_MAJOR = 24

/** Returns `{ binaries, node, postgres_bin, runsc, templates, late_templates }`; the last are names of those that are left to be built. */
export async function install({ settings, log, embedded_postgres = settings.database_url === '', may_be_late = false }) {
  const started = performance.now()
  const { node } = await installPackages({ settings, log })
  const built = await installMachines({ settings, log, may_be_late })
  const postgres_bin = embedded_postgres ? await ensurePostgres({ cache_dir: settings.cache_dir }) : undefined
  log(`set-up is complete (${((performance.now() - started) / 1000).toFixed(1)} s)`)
  return { ...built, node, postgres_bin }
}

/** Its first part: all that what needs no machine needs. `more` comes after Debian's packages. Returns `{ node, more }`. */
export async function installPackages({ settings, log, more = async () => undefined }) {
  await checkHost()
  await checkGo({ settings })
  // They mostly wait for the network. Debian's packages come one after the other: two of apt would want one lock.
  const [, told] = await bothEnded(ensureNodeModules({ log }), ensureDebianPackages({ log }).then(more))
  return { node: findNode(), more: told }
}

/** Its second part, which takes minutes when nothing is in the cache. Returns `{ binaries, runsc, templates, late_templates }`. */
export async function installMachines({ settings, log, may_be_late = false }) {
  // Compiling takes processors, templates take the network and then one processor: side by side they take two thirds of the time.
  const [programs, templates] = await bothEnded(installPrograms({ settings, log }), installTemplates({ settings, log, may_be_late }))
  return { ...programs, ...templates }
}

async function installPrograms({ settings, log }) {
  const binaries = await ensureBinaries({ settings, log })
  // runsc's own step reads the environment alone; a flag or the file may name it too.
  if (settings.runsc !== '') process.env.BERTH_RUNSC = settings.runsc
  return { binaries, runsc: await ensureRunsc({ cache_dir: settings.cache_dir, log }) }
}

async function installTemplates({ settings: { cache_dir }, log, may_be_late }) {
  const [templates, late_templates] = [[], []]
  for (const name of PLATFORM_TEMPLATES) {
    const late = may_be_late && LATE_TEMPLATES.includes(name) && !(await isTemplateBuilt({ name, cache_dir }))
    if (late) late_templates.push(name)
    else templates.push(await ensureTemplate({ name, cache_dir, log }))
  }
  return { templates, late_templates }
}

/** Like Promise.all, but what still builds when the other has failed is not left behind. */
async function bothEnded(...steps) {
  const ended = await Promise.allSettled(steps)
  const failed = ended.find(({ status }) => status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return ended.map(({ value }) => value)
}

/** The Node.js that runs the service: npm's package of it, or the one that runs this when it is new enough. */
export function findNode() {
  const packaged = join(CLONE, 'node_modules', `node-linux-${process.arch}`, 'bin', 'node')
  if (existsSync(packaged)) return packaged
  if (Number(process.versions.node.split('.')[0]) >= NODE_MAJOR) return process.execPath
  throw new Error(
    `Berth needs Node.js ${NODE_MAJOR}, and npm did not install its package for linux-${process.arch}: install Node.js ${NODE_MAJOR}.`,
  )
}
