// `npm run chaos -- --minutes 10` compares acknowledged changes with reads: N1 to N7 of docs/operating/promises.md, and I1 to I15. It omits
// N5, I13 and I14, which concern file-first workspaces, egress policies and secrets.
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { KEPT_VARIABLE } from '../../tools/enclosure/enclosure.mjs'
import { startService } from '../support/service.ts'
import { act, readAll } from './actor.ts'
import { createCaller } from './caller.ts'
import { checkRest, watch } from './check.ts'
import { openHistory } from './history.ts'
import { kill } from './killer.ts'
import { newBelieved, type Believed } from './model.ts'
import { countTransitions, judgeCoverage } from './moves.ts'
import { open, type Actor } from './open.ts'
import { createRandom } from './random.ts'
import { judgeRecord, startRecord } from './record.ts'
import { checkRows } from './rest.ts'
import { revokeOne, watchRevoked } from './revoked.ts'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    workspaces: { type: 'string', default: '6' },
    clients: { type: 'string', default: '8' },
    every: { type: 'string', default: '10-40' },
  },
})
const SHOWN_MAX = 50
const [seed, minutes] = [Number(values.seed), Number(values.minutes)]
const [min = 10, max = 40] = values.every.split('-').map(Number)
const history = openHistory(path.join(mkdtempSync(path.join(process.env[KEPT_VARIABLE] ?? tmpdir(), 'berth-chaos-')), 'history.jsonl'))
process.stdout.write(`seed ${seed}, ${minutes} minutes; history: ${history.file}\n`)

const service = await startService({
  settings: {
    slot_memory_mib: 512,
    slots: 2,
    shells: 1,
    memory_overcommit: 4,
    disk_overcommit: 50,
    pool_image_gib: 24,
    // Idle machines park soon, so that processes also die while parking.
    freeze_after_seconds: 1,
    hibernate_after_seconds: 3,
  },
})
try {
  await play()
} finally {
  await service.stop()
}
const counts = [...history.counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([what, count]) => `${what} ${count}`)
process.stdout.write(`seed ${seed}: ${counts.join(', ')}\n`)
process.stdout.write(
  history.violations.length === 0
    ? 'Nothing was violated\n'
    : `${history.violations.length} violations:\n${history.violations.slice(0, SHOWN_MAX).join('\n')}\n`,
)
process.exit(history.violations.length === 0 ? 0 : 1)

async function play(): Promise<void> {
  await startRecord(service)
  const began_ms = performance.now()
  const actor = (index: number): Actor => {
    const random = createRandom(seed * 1000 + index)
    return { name: `c${index}`, caller: createCaller(service, history, random), history, random }
  }
  const workspaces = Array.from({ length: Number(values.workspaces) }, (_, index): Believed => newBelieved(`w${index}`))
  await Promise.all(workspaces.map((seen, index) => open(actor(100 + index), seen)))
  const [first = newBelieved('none')] = workspaces
  const revoked = await revokeOne(service, first)
  const ends_ms = performance.now() + minutes * 60_000
  const stopped = () => performance.now() > ends_ms
  const clients = Array.from({ length: Number(values.clients) }, (_, index) => act(actor(index), workspaces, stopped))
  const killing = kill({ service, history, random: createRandom(seed), workspaces, every_seconds: [min, max] }, stopped)
  const watching = watch(service, history, stopped)
  const counting = countTransitions(service, history, stopped)
  const distrusting = watchRevoked(service, revoked, history, stopped)
  await Promise.all([...clients, killing, watching, counting, distrusting])
  await service.ready()
  for (const [index, seen] of workspaces.entries()) {
    const last = actor(200 + index)
    if (await open(last, seen)) await readAll(last, seen)
  }
  await checkRest(service, history)
  await checkRows(service, history)
  await judgeRecord(service, performance.now() - began_ms, history)
  judgeCoverage(history)
}
