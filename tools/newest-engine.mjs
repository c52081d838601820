// `npm run newest-engine [-- VERSION]`: checks which patches apply to the newest or the named gVisor, and builds gVisor if all do. Writes
// patches that apply with an offset to a folder.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { copyRecipe } from './setup/runsc.mjs'

const GVISOR = 'gvisor.dev/gvisor'
const folder = mkdtempSync(join(tmpdir(), 'berth-newest-engine-'))
const refreshed = join(folder, 'patches-refreshed')
const work = join(folder, 'work')
mkdirSync(work)
await copyRecipe(work)

const version = moveTo(process.argv[2] ?? 'latest')
console.log(`gVisor ${version}`)
const source = join(work, 'vendor', GVISOR)
git('init', '--quiet')
keep('as it is')
const verdicts = readFileSync(join(work, 'patches/series'), 'utf8').trim().split('\n').map(tryPatch)
for (const { name, says } of verdicts) console.log(`${says.padEnd(22)} ${name}`)
const fit = verdicts.every(({ says }) => says !== 'does not fit')
if (fit) build()
console.log(fit ? 'It builds with every patch.' : 'Some patches have to be made anew, or are not needed any more.')
console.log(`Patches as they would stand there: ${refreshed}`)
rmSync(work, { recursive: true, force: true })
process.exitCode = fit ? 0 : 1

function moveTo(wanted) {
  go('get', `${GVISOR}@${wanted}`)
  go('mod', 'tidy')
  go('mod', 'vendor')
  return go('list', '-mod=mod', '-m', '-f', '{{.Version}}', GVISOR).trim()
}

function tryPatch(name) {
  const path = join(work, 'patches', name)
  if (!fits(path)) return { name, says: 'does not fit' }
  const head = readFileSync(path, 'utf8').split('diff --git')[0]
  const now = head + git('diff', '--no-color', 'HEAD').replaceAll(/^index .*\n/gm, '')
  const moved = now !== readFileSync(path, 'utf8')
  mkdirSync(dirname(join(refreshed, name)), { recursive: true })
  writeFileSync(join(refreshed, name), now)
  writeFileSync(path, now)
  keep(name)
  return { name, says: moved ? 'fits at other lines' : 'fits' }
}

function fits(path) {
  try {
    git('apply', '--whitespace=nowarn', path)
    return true
  } catch {
    git('reset', '--quiet', '--hard')
    return false
  }
}

function build() {
  rmSync(join(work, 'vendor'), { recursive: true, force: true })
  go('mod', 'vendor')
  go('run', '-mod=vendor', '.', 'vendor')
  go('build', '-mod=vendor', '-o', join(folder, 'runsc'), `${GVISOR}/runsc`)
}

function keep(message) {
  git('add', '--all', '--force')
  git('-c', 'user.name=berth', '-c', 'user.email=berth@localhost', 'commit', '--quiet', '--allow-empty', '--message', message)
}

function git(...args) {
  return execFileSync('git', args, { cwd: source, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 1 << 28 })
}

function go(...args) {
  const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: '', GOWORK: 'off' }
  return execFileSync('go', args, { cwd: work, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], timeout: 1_800_000 })
}
