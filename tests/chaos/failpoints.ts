// `npm run failpoints -- [words] [--modes kill,stop] [--stop-seconds 3]`: every failpoint whose name contains a word (all without
// one) in every mode, on real machines, as a table. RELIABILITY 2.3.
import { execFileSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { startService, type Service } from '../support/service.ts'
import type { Actor } from './actor.ts'
import { arm, disarm, follow, openMarkers, type Armed, type Markers } from './arm.ts'
import { createCaller } from './caller.ts'
import { checkRest } from './check.ts'
import { openHistory, type History } from './history.ts'
import { everyPoint, MODES, type Mode, type Point } from './points.ts'
import { createRandom } from './random.ts'
import { prepare, run, verify } from './scenario.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { modes: { type: 'string', default: MODES.join(',') }, 'stop-seconds': { type: 'string', default: '3' } },
})
const stop_ms = Number(values['stop-seconds']) * 1000
const modes = MODES.filter((mode) => values.modes.split(',').includes(mode))
const hostd = process.env['BERTH_TEST_HOSTD'] ?? ''
const hostd_names = execFileSync(hostd, ['--list-failpoints'], { encoding: 'utf8' }).trim().split('\n')
const label = (point: Point) => (point.owner === 'hostd' ? `hostd/${point.name}` : point.name)
const points = everyPoint(hostd_names).filter(
  (point) => positionals.length === 0 || positionals.some((word) => label(point).includes(word)),
)
const history = openHistory(path.join(mkdtempSync('/tmp/berth-points-'), 'history.jsonl'))
const results = new Map<string, string>()

process.stdout.write(`${points.length} points, ${modes.length} modes; history: ${history.file}\n`)
for (const mode of modes) await runMode(mode)
print()
process.exit([...results.values()].every((result) => result.startsWith('ok')) ? 0 : 1)

async function runMode(mode: Mode): Promise<void> {
  const markers = openMarkers()
  const service = await startService({ failpoints: markers.spec(mode), settings: { slot_memory_mib: 512, slots: 1, shells: 1 } })
  try {
    for (const point of points) {
      const began_ms = performance.now()
      const result = await runCase(service, markers, point, mode)
      results.set(`${label(point)} ${mode}`, result)
      process.stdout.write(
        `${mode.padEnd(9)} ${label(point).padEnd(28)} ${((performance.now() - began_ms) / 1000).toFixed(1).padStart(5)} s  ${result}\n`,
      )
    }
    const before = history.violations.length
    await checkRest(service, history)
    results.set(`rest ${mode}`, history.violations.length === before ? 'ok' : `FAIL ${history.violations.slice(before).join('; ')}`)
  } finally {
    await service.stop()
    markers.close()
  }
}

async function runCase(service: Service, markers: Markers, point: Point, mode: Mode): Promise<string> {
  const found: History = {
    ...history,
    violations: [],
    violate: (what, about) => void found.violations.push(`${what} ${JSON.stringify(about)}`),
  }
  const random = createRandom(1)
  const actor: Actor = { name: 'case', caller: createCaller(service, found, random), history: found, random }
  try {
    const seen = await prepare(service, actor, point.kind)
    const armed = await arm(service, markers, point, mode)
    let ended = false
    const following = watchFor(
      armed,
      () => ended,
      () => follow(service, point.owner, mode, stop_ms),
    ).then(() => service.ready())
    const operation = await run(actor, seen, point.kind).finally(() => (ended = true))
    await following
    const reached = armed.fired() !== false
    await disarm(service, markers, point)
    await verify(service, actor, seen, point.kind, operation)
    if (found.violations.length > 0) return `FAIL ${found.violations.join('; ')}`
    return reached ? `ok, ${operation.state}` : 'NOT REACHED'
  } catch (error) {
    await service.ready().catch(() => undefined) // the next case says so
    await disarm(service, markers, point).catch(() => undefined)
    return `FAIL ${[...found.violations, String(error).replaceAll(/\s+/g, ' ').slice(0, 600)].join('; ')}`
  }
}

/** Does what follows once the point has fired; the operation may end first, at points behind its end. */
async function watchFor(armed: Armed, ended: () => boolean, then: () => Promise<void>): Promise<void> {
  for (let after_end = 0; after_end < 20; after_end += ended() ? 1 : 0) {
    if (armed.fired() === true) return then()
    if (ended() && armed.fired() === null) return
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
}

function print(): void {
  const names = [...points.map(label), 'rest']
  const cell = (name: string, mode: Mode) => (results.get(`${name} ${mode}`) ?? '-').split(/[ ,;]/)[0] ?? '-'
  process.stdout.write(`\n${'point'.padEnd(28)} ${modes.map((mode) => mode.padEnd(9)).join(' ')}\n`)
  for (const name of names) process.stdout.write(`${name.padEnd(28)} ${modes.map((mode) => cell(name, mode).padEnd(9)).join(' ')}\n`)
  for (const [name, result] of results) if (!result.startsWith('ok')) process.stdout.write(`${name}: ${result}\n`)
}
