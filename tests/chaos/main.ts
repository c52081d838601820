// `npm run chaos -- --minutes 10`: real machines, clients that do everything at once, and something killed every now and then.
// Everything that was acknowledged is compared with what is read back: RELIABILITY N1-N7, I1-I15.
import { mkdtempSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { startService } from '../support/service.ts'
import { act, open, type Actor } from './actor.ts'
import { createCaller } from './caller.ts'
import { checkRest, watch } from './check.ts'
import { openHistory } from './history.ts'
import { kill } from './killer.ts'
import { emptyContent, Lock, type Believed } from './model.ts'
import { createRandom } from './random.ts'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    workspaces: { type: 'string', default: '6' },
    clients: { type: 'string', default: '8' },
    every: { type: 'string', default: '10-40' },
  },
})
const [seed, minutes] = [Number(values.seed), Number(values.minutes)]
const [min = 10, max = 40] = values.every.split('-').map(Number)
const history = openHistory(path.join(mkdtempSync('/tmp/berth-chaos-'), 'history.jsonl'))
process.stdout.write(`seed ${seed}, ${minutes} minutes; history: ${history.file}\n`)

const service = await startService({
  settings: { slot_memory_mib: 512, slots: 2, shells: 1, memory_overcommit: 4, disk_overcommit: 50, pool_image_gib: 12 },
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
    : `${history.violations.length} violations:\n${history.violations.join('\n')}\n`,
)
process.exit(history.violations.length === 0 ? 0 : 1)

async function play(): Promise<void> {
  const actor = (index: number): Actor => {
    const random = createRandom(seed * 1000 + index)
    return { name: `c${index}`, caller: createCaller(service, history, random), history, random }
  }
  const workspaces = Array.from({ length: Number(values.workspaces) }, (_, index): Believed => newWorkspace(`w${index}`))
  await Promise.all(workspaces.map((seen, index) => open(actor(100 + index), seen)))
  const ends_ms = performance.now() + minutes * 60_000
  const stopped = () => performance.now() > ends_ms
  const clients = Array.from({ length: Number(values.clients) }, (_, index) => act(actor(index), workspaces, stopped))
  const killing = kill({ service, history, random: createRandom(seed), workspaces, every_seconds: [min, max] }, stopped)
  const watching = watch(service, history, stopped)
  await Promise.all([...clients, killing, watching])
  await service.ready()
  await checkRest(service, history)
}

function newWorkspace(key: string): Believed {
  return { key, id: '', endpoint: '', token: '', epoch: 0, content: emptyContent(), snapshots: new Map(), deaths: 0, lock: new Lock() }
}
