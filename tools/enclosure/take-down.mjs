// `take-down.mjs [HOSTD]`: runs in an enclosure whose processes and mounts are gone. Removes the named kernel resources of installations,
// test daemons and recorded control groups.
import { existsSync, readdirSync, readFileSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from '../setup/cached-build.mjs'

const CLEAN = fileURLToPath(new URL('../clean.mjs', import.meta.url))
const CLEAN_SECONDS = 300
const SERVICES = '/tmp/berth-test-service'
const CGROUPS = '/sys/fs/cgroup'
const hostd = process.argv[2]
/** Of the caller's settings only the cache folder applies. */
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('BERTH_') || name === 'BERTH_CACHE_DIR'))
const bounded = { timeout_seconds: CLEAN_SECONDS, env }

const failed = []
for (const service of below(SERVICES)) await attempt(() => run(process.execPath, [CLEAN, '--data-dir', dataOf(service), '--data'], bounded))
const folders = ['/tmp', ...below('/tmp').filter((folder) => /^\/tmp\/bt-/.test(folder))].flatMap(below)
for (const config of folders
  .filter((folder) => /\/(hostd|berth-engine)-[^/]+$/.test(folder))
  .map((folder) => join(folder, 'config.json'))) {
  if (!existsSync(config)) continue
  if (hostd === undefined) failed.push(`no hostd is there that could clean after ${config}`)
  else await attempt(() => run(hostd, ['clean', '--config', config], bounded))
}
for (const [, name] of folders.map((file) => /\/bt-[^/]+\/cgroup-(.+)$/.exec(file) ?? []))
  if (name !== undefined) for (const root of [CGROUPS, ...below(CGROUPS)]) await attempt(() => removeGroup(join(root, name)))
for (const line of failed) process.stderr.write(`${line}\n`)
process.exitCode = failed.length === 0 ? 0 : 1

async function attempt(step) {
  try {
    await step()
  } catch (error) {
    failed.push(error.message)
  }
}

function dataOf(service) {
  try {
    return JSON.parse(readFileSync(join(service, 'owner'), 'utf8')).data_dir
  } catch {
    return join(service, 'data') // the service was killed before it wrote the file
  }
}

function removeGroup(folder) {
  if (!existsSync(folder)) return
  for (const entry of readdirSync(folder, { withFileTypes: true })) if (entry.isDirectory()) removeGroup(join(folder, entry.name))
  rmdirSync(folder)
}

function below(folder) {
  return existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : []
}
