// `npm run failpoints -- [words] [--modes kill,stop] [--stop-seconds 3]` runs every failpoint whose name has a word (or all) in every mode.
import { execFileSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { KEPT_VARIABLE } from '../../tools/enclosure/enclosure.mjs'
import { startService } from '../support/service.ts'
import { openMarkers } from './arm.ts'
import { runCase } from './case.ts'
import { checkRest } from './check.ts'
import { openHistory } from './history.ts'
import { PARK_SOON } from './parking.ts'
import { everyPoint, isParking, labelOf, MODES, type Mode } from './points.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { modes: { type: 'string', default: MODES.join(',') }, 'stop-seconds': { type: 'string', default: '3' } },
})
const stop_ms = Number(values['stop-seconds']) * 1000
const modes = MODES.filter((mode) => values.modes.split(',').includes(mode))
const hostd = process.env['BERTH_TEST_HOSTD'] ?? ''
const hostd_names = execFileSync(hostd, ['--list-failpoints'], { encoding: 'utf8' }).trim().split('\n')
const points = everyPoint(hostd_names).filter(
  (point) => positionals.length === 0 || positionals.some((word) => labelOf(point).includes(word)),
)
const history = openHistory(path.join(mkdtempSync(path.join(process.env[KEPT_VARIABLE] ?? tmpdir(), 'berth-points-')), 'history.jsonl'))
const results = new Map<string, string>()
const GROUPS = [
  { name: 'rest', points: points.filter(({ kind }) => !isParking(kind)), settings: {} },
  { name: 'rest of parking', points: points.filter(({ kind }) => isParking(kind)), settings: PARK_SOON },
].filter((group) => group.points.length > 0)

process.stdout.write(`${points.length} points, ${modes.length} modes; history: ${history.file}\n`)
if (modes.includes('stop'))
  process.stdout.write(
    `stop: at least ${stop_ms / 1000} s, and longer than it takes another api or cell to begin and end what was asked for; while hostd stands still its cell is replaced\n`,
  )
for (const mode of modes) for (const group of GROUPS) await runGroup(mode, group)
print()
process.exit([...results.values()].every((result) => result.startsWith('ok')) ? 0 : 1)

async function runGroup(mode: Mode, group: (typeof GROUPS)[number]): Promise<void> {
  const markers = openMarkers()
  const settings = { slot_memory_mib: 512, slots: 1, shells: 1, ...group.settings }
  const service = await startService({ failpoints: markers.spec(mode), settings })
  try {
    for (const point of group.points) {
      const began_ms = performance.now()
      const result = await runCase({ service, markers, history, stop_ms }, point, mode)
      results.set(`${labelOf(point)} ${mode}`, result)
      process.stdout.write(
        `${mode.padEnd(9)} ${labelOf(point).padEnd(38)} ${((performance.now() - began_ms) / 1000).toFixed(1).padStart(5)} s  ${result}\n`,
      )
    }
    const before = history.violations.length
    await checkRest(service, history)
    results.set(
      `${group.name} ${mode}`,
      history.violations.length === before ? 'ok' : `FAIL ${history.violations.slice(before).join('; ')}`,
    )
  } finally {
    await service.stop()
    markers.close()
  }
}

function print(): void {
  const names = [...points.map(labelOf), ...GROUPS.map(({ name }) => name)]
  const cell = (name: string, mode: Mode) => (results.get(`${name} ${mode}`) ?? '-').split(/[ ,;]/)[0] ?? '-'
  process.stdout.write(`\n${'point'.padEnd(38)} ${modes.map((mode) => mode.padEnd(9)).join(' ')}\n`)
  for (const name of names) process.stdout.write(`${name.padEnd(38)} ${modes.map((mode) => cell(name, mode).padEnd(9)).join(' ')}\n`)
  for (const [name, result] of results) if (!result.startsWith('ok')) process.stdout.write(`${name}: ${result}\n`)
}
