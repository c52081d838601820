import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { sql } from 'kysely'
import { insertVolume } from '../../../tests/engine/volume-row.ts'
import { createWorld } from '../../../tests/engine/world.ts'
import { depth } from '../../../tests/support/depth.ts'
import { generatorOf, testSeed } from '../../../tests/support/seed.ts'
import { reconcile } from '../../core/money/usage/reconcile.ts'
import { closeLedger } from './sampler.ts'

const SCRIPT = path.join(import.meta.dirname, '../../../tests/support/metering-process.ts')
const HOUR_MS = 3600_000

async function killAfter(given: object, acknowledgements: number, and_ms: number): Promise<number> {
  const flags = ['--disable-warning=ExperimentalWarning', SCRIPT, JSON.stringify(given)]
  const child = spawn(process.execPath, flags, { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  let [last, count] = [0, 0]
  for await (const line of createInterface({ input: child.stdout })) {
    last = Number(line)
    count += 1
    if (count === acknowledgements) setTimeout(() => child.kill('SIGKILL'), and_ms)
  }
  assert.deepEqual(await ended, [null, 'SIGKILL'])
  return last
}

test('a cell that is killed while it samples and closes loses no acknowledged usage and counts nothing twice', async () => {
  await using world = await createWorld()
  const seed = testSeed()
  const random = generatorOf(seed)
  const workspaces = await Promise.all([1, 2, 3].map(async () => (await world.open()).workspace_id))
  const volume_id = await insertVolume(world, workspaces[0] ?? '')
  const database = world.database.options('berth_cell')
  let began_ms = Date.now() - 48 * HOUR_MS
  const used = async () => {
    const { rows } = await sql<{ sum: number }>`select coalesce(sum(cpu_usec), 0)::bigint as sum from usage_samples`.execute(world.db)
    return rows[0]?.sum ?? 0
  }
  const check = async () => {
    const { differences } = await reconcile(world.db, new Date(0), new Date())
    assert.deepEqual(differences, [], `BERTH_TEST_SEED=${seed}`)
  }
  for (let kills = 0; kills < depth({ short: 2, long: 60 }); kills += 1) {
    const last = await killAfter({ database, workspaces, volume_id, began_ms }, 20 + Math.floor(random() * 10), Math.floor(random() * 12))
    assert.ok((await used()) >= last, `BERTH_TEST_SEED=${seed}: ${last} were acknowledged`)
    await check()
    began_ms += Math.floor((random() - 0.3) * 4 * HOUR_MS) // the next process has another clock
  }
  const now = new Date(Date.now() + 100 * HOUR_MS)
  await closeLedger({ db: world.db, clock: { now: () => now, monotonic_ms: () => 0 } })
  await check()
  const { rows } = await sql<{ entries: number; open: number }>`select (select count(*) from usage_entries)::int as entries,
    (select count(*) from usage_open_hours)::int as open`.execute(world.db)
  assert.ok((rows[0]?.entries ?? 0) > 0)
  assert.equal(rows[0]?.open, 0)
})
