// `npm run test:long [-- PART…] [--seed N]`: what proves too much to be done for every change. A part that fails does not end the run.
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { longParts } from './long/parts.mjs'
import { chosenParts, runParts, tableOf } from './long/plan.mjs'
import { CLONE } from './setup/packages.mjs'
import { report } from './setup/main.mjs'
import { SettingsError } from './setup/settings.mjs'

const SEED_MAX = 1_000_000
const log = (line) => process.stdout.write(`${line}\n`)

await report(async () => {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { seed: { type: 'string' } } })
  const seed = values.seed === undefined ? randomInt(1, SEED_MAX) : Number(values.seed)
  if (!Number.isSafeInteger(seed)) throw new SettingsError(`--seed ${values.seed} is not a number.`)
  const parts = chosenParts(longParts(seed), positionals)
  const interruption = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM']) process.on(name, () => interruption.abort())
  log(`seed ${seed}; the same again: npm run test:long -- --seed ${seed}`)
  const results = await runParts(parts, { cwd: CLONE, log, signal: interruption.signal })
  log(`\nseed ${seed}\n${tableOf(results)}`)
  return results.every(({ ended_as }) => ended_as === 0) ? 0 : 1
})
