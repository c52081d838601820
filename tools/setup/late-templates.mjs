// `late-templates.mjs NAMES FLAGS…`: builds templates for which a first start does not wait.
import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { exists, run } from './cached-build.mjs'
import { layoutOf } from './config.mjs'
import { loadSettings } from './load.mjs'
import { report } from './main.mjs'
import { CLONE } from './packages.mjs'
import { publishLayer } from './publish-layer.mjs'
import { ensureTemplate } from './template.mjs'

const SELF = fileURLToPath(import.meta.url)
const LOWEST_PRIORITY = 19
const PUBLISH_TRIES = 60
const PUBLISH_PAUSE_MS = 5000

export async function publishLater({ late_templates, node }, settings, argv) {
  if (late_templates.length === 0) return
  const { logs } = layoutOf(settings)
  mkdirSync(logs, { recursive: true, mode: 0o700 })
  const log = join(logs, 'late-templates.log')
  const output = openSync(log, 'w', 0o600)
  const child = spawn(node, [SELF, JSON.stringify(late_templates), ...argv], { detached: true, stdio: ['ignore', output, output] })
  closeSync(output)
  child.unref()
  process.stdout.write(`template ${late_templates.join(', ')} is built beside the service, about two minutes (${log})\n`)
}

export async function buildAndPublish(names, argv, { tries_max = 1 } = {}) {
  const { settings } = loadSettings(argv)
  const { layers } = layoutOf(settings)
  const log = (line) => process.stdout.write(`${line}\n`)
  for (const name of names) {
    const template = await ensureTemplate({ name, cache_dir: settings.cache_dir, log })
    await whenPossible(async () => {
      if (!(await exists(layers))) throw new Error(`${layers} is not there yet.`)
      await publishLayer(layers, template, log)
      log((await publish(template, argv)).trim())
    }, tries_max)
  }
}

/** Retries, because the service may still be starting. If it never starts, the next start publishes the templates. */
async function whenPossible(action, tries_max) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await action()
    } catch (error) {
      if (tries >= tries_max) throw error
      await pause(PUBLISH_PAUSE_MS)
    }
  }
}

async function publish({ name, digest, settings }, argv) {
  const folder = await mkdtemp(join(tmpdir(), 'berth-template-'))
  try {
    const file = join(folder, 'settings.json')
    await writeFile(file, JSON.stringify(settings))
    const command = ['template', 'publish', '--slug', name, '--settings', file, '--layers', digest]
    return await run(process.execPath, [join(CLONE, 'tools', 'admin.mjs'), ...argv, ...command])
  } finally {
    await rm(folder, { recursive: true })
  }
}

if (process.argv[1] === SELF) {
  await report(() => {
    const [names, ...argv] = process.argv.slice(2)
    setPriority(LOWEST_PRIORITY)
    return buildAndPublish(JSON.parse(names), argv, { tries_max: PUBLISH_TRIES })
  })
}
