// `npm run test:long [-- PART…] [--next] [--list] [--seed N]`. A failed part does not end the run.
import { execFileSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { listOf, nextPart, openGreens } from './long/greens.mjs'
import { longParts, PART_MINUTES } from './long/parts.mjs'
import { chosenParts, runParts, tableOf } from './long/plan.mjs'
import { beginProgress, endProgress, progressFile, PROGRESS_VARIABLE, seedOfProgress } from './long/progress.mjs'
import { loadSettings } from './setup/load.mjs'
import { report } from './setup/main.mjs'
import { CLONE } from './setup/packages.mjs'
import { SettingsError } from './setup/settings.mjs'

const SEED_MAX = 1_000_000
const log = (line) => process.stdout.write(`${line}\n`)

await report(async () => {
  const options = { seed: { type: 'string' }, next: { type: 'boolean' }, list: { type: 'boolean' } }
  const { values, positionals } = parseArgs({ allowPositionals: true, options })
  const { cache_dir } = loadSettings([]).settings
  const greens = openGreens(cache_dir)
  const chosen = chosenParts(longParts(1), positionals)
  if (values.list) {
    process.stdout.write(listOf(chosen, greens.read()))
    return 0
  }
  const commit = commitOf(CLONE)
  const names = (values.next ? [nextPart(chosen, greens.read())] : chosen).map(({ name }) => name)
  // An interrupted part continues with the seed that it began with.
  const ended_with = names.length === 1 ? seedOfProgress(progressFile(cache_dir, names[0]), commit) : undefined
  const seed = values.seed === undefined ? (ended_with ?? randomInt(1, SEED_MAX)) : Number(values.seed)
  if (!Number.isSafeInteger(seed)) throw new SettingsError(`--seed ${values.seed} is not a number.`)
  const parts = longParts(seed)
    .filter(({ name }) => names.includes(name))
    .map((part) => ({ ...part, env: { ...part.env, [PROGRESS_VARIABLE]: progressFile(cache_dir, part.name) } }))
  const interruption = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, () => interruption.abort())
  log(`seed ${seed}; the same again: npm run test:long -- ${values.next ? parts[0].name : positionals.join(' ')} --seed ${seed}`)
  const began = ({ name }) => beginProgress(progressFile(cache_dir, name), commit, seed)
  const ended = ({ name, ended_as, seconds }) => {
    if (ended_as !== 0) return
    greens.note(name, { at: new Date().toISOString(), commit, minutes: seconds / 60, seed })
    endProgress(progressFile(cache_dir, name))
  }
  const results = await runParts(parts, { cwd: CLONE, log, signal: interruption.signal, minutes: PART_MINUTES, began, ended })
  log(`\nseed ${seed}\n${tableOf(results)}`)
  return results.every(({ ended_as }) => ended_as === 0) ? 0 : 1
})

function commitOf(folder) {
  const git = (...args) => execFileSync('git', args, { cwd: folder, encoding: 'utf8' }).trim()
  try {
    return `${git('rev-parse', '--short=11', 'HEAD')}${git('status', '--porcelain', '--untracked-files=no') === '' ? '' : '+'}`
  } catch {
    return 'no commit' // the sources come from an archive
  }
}
