import assert from 'node:assert/strict'
import { cpSync, mkdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

const ROOT = path.resolve(import.meta.dirname, '../..')
const CACHE = '/var/cache/berth'
/** Paths as in the Dockerfile. */
const PROGRAMS = '/opt/berth-programs'
const CLONE = '/opt/berth'

type Run = (argv: string[]) => Promise<string>

export function printed(start: string): string {
  const page = readFileSync(path.join(ROOT, 'docs/operating/container.md'), 'utf8')
  const line = page.split('\n').find((each) => each.startsWith(start))
  assert.ok(line, `the page has no line that starts with ${start}`)
  return line
}

/** As `docker build` does, but without the internet: from this computer's system, the repository and the programs. */
export async function makeImage(run: Run): Promise<void> {
  const file = readFileSync(path.join(ROOT, 'Dockerfile'), 'utf8').replaceAll('\\\n', ' ').split('\n')
  const last = file.slice(file.findLastIndex((line) => line.startsWith('FROM ')))
  const changes = last.filter((line) => /^(WORKDIR|ENV|VOLUME|EXPOSE|ENTRYPOINT) /.test(line))
  assert.ok(changes.length >= 5, changes.join('\n'))
  mkdirSync(PROGRAMS, { recursive: true })
  cpSync(ROOT, CLONE, { recursive: true, dereference: false, filter: (from) => !from.startsWith(path.join(ROOT, '.git')) })
  const programs = JSON.parse(await run([process.execPath, '--input-type=module', '-e', WHERE])) as Record<string, string>
  for (const [name, from] of Object.entries(programs)) cpSync(from, path.join(PROGRAMS, name))
  const skipped = ['var/lib/docker', 'var/lib/containerd', 'var/lib/berth', 'var/overlay', 'var/tmp', 'boot', 'usr/lib/modules']
  const tar = ['tar', '-C', '/', '--one-file-system', ...skipped.map((name) => `--exclude=./${name}`), '-c', '.']
  const quoted = changes.flatMap((change) => ['--change', `'${change.replaceAll(/\s+/g, ' ')}'`])
  await run(['bash', '-o', 'pipefail', '-c', `${tar.join(' ')} | docker import ${quoted.join(' ')} - berth`])
}

const WHERE = `
  import { installMachines } from '${ROOT}/tools/setup/install.mjs'
  import { loadSettings } from '${ROOT}/tools/setup/load.mjs'
  const { binaries, runsc } = await installMachines({ settings: loadSettings([]).settings, log() {} })
  console.log(JSON.stringify({ ...binaries, runsc: runsc.path }))`

/** This computer cannot fetch packages to build templates, so the cache gets built ones. */
export async function fillCache(run: Run): Promise<void> {
  await run(['docker', 'volume', 'create', 'berth-cache'])
  const there = (await run(['docker', 'volume', 'inspect', '--format', '{{.Mountpoint}}', 'berth-cache'])).trim()
  cpSync(path.join(CACHE, 'templates'), path.join(there, 'templates'), { recursive: true })
}
