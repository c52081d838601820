// Installs what all installations of the computer share. Concurrent starts are safe.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { checkGo, ensureBinaries } from './binaries.mjs'
import { checkHost } from './host.mjs'
import { CLONE, ensureDebianPackages, ensureNodeModules } from './packages.mjs'
import { ensurePostgres } from './postgres.mjs'
import { ensureRunsc } from './runsc.mjs'
import { ensureTemplate, isTemplateBuilt } from './template.mjs'

const PLATFORM_TEMPLATES = ['base', 'browser']
/** A first start builds these templates in the background. */
const LATE_TEMPLATES = ['browser']
const NODE_MAJOR = 24

export async function install({ settings, log, embedded_postgres = settings.database_url === '', may_be_late = false }) {
  const started = performance.now()
  const { node } = await installPackages({ settings, log })
  const built = await installMachines({ settings, log, may_be_late })
  const postgres_bin = embedded_postgres ? await ensurePostgres({ cache_dir: settings.cache_dir }) : undefined
  log(`set-up is complete (${((performance.now() - started) / 1000).toFixed(1)} s)`)
  return { ...built, node, postgres_bin }
}

/** Tests without machines need only this step. */
export async function installPackages({ settings, log, more = async () => undefined }) {
  await checkHost()
  await checkGo({ settings })
  // Both steps mostly wait for the network. `more` follows the Debian packages, because two apt processes would compete for one lock.
  const [, told] = await bothEnded(ensureNodeModules({ log }), ensureDebianPackages({ log }).then(more))
  return { node: findNode(), more: told }
}

export async function installMachines({ settings, log, may_be_late = false }) {
  // Runs both at once, which takes two thirds of the time: compiling needs processors, and templates mostly the network.
  const [programs, templates] = await bothEnded(installPrograms({ settings, log }), installTemplates({ settings, log, may_be_late }))
  return { ...programs, ...templates }
}

async function installPrograms({ settings, log }) {
  const binaries = await ensureBinaries({ settings, log })
  // `ensureRunsc` reads only the environment.
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

/** Waits for all steps before it throws, unlike Promise.all. */
async function bothEnded(...steps) {
  const ended = await Promise.allSettled(steps)
  const failed = ended.find(({ status }) => status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return ended.map(({ value }) => value)
}

/** Uses Node.js of npm's package, else the current Node.js if it is new enough. */
export function findNode() {
  const packaged = join(CLONE, 'node_modules', `node-linux-${process.arch}`, 'bin', 'node')
  if (existsSync(packaged)) return packaged
  if (Number(process.versions.node.split('.')[0]) >= NODE_MAJOR) return process.execPath
  throw new Error(
    `Berth needs Node.js ${NODE_MAJOR}, and npm did not install its package for linux-${process.arch}: install Node.js ${NODE_MAJOR}.`,
  )
}
