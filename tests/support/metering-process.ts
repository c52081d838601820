import { closeLedger } from '../../service/cell/metering/sampler.ts'
import { addSamples } from '../../service/cell/metering/store.ts'
import { addStoredVolumes } from '../../service/cell/metering/volume-store.ts'
import { openDatabase } from '../../service/db/database.ts'
import type { DatabaseOptions } from '../../service/db/options.ts'
import { createIds } from '../../service/lib/ids.ts'
import { systemClock } from '../../service/lib/clock.ts'

/**
 * Program of service/cell/metering/killed.test.ts. Every second step is twenty minutes later. Usage continues from the last stored reading.
 */
const given = JSON.parse(process.argv[2] ?? '') as {
  database: DatabaseOptions
  workspaces: string[]
  volume_id: string
  began_ms: number
}
const { database, workspaces, volume_id, began_ms } = given
const db = openDatabase(database)
const run = createIds(systemClock).next()
const known = await db.selectFrom('usage_counters').select(['workspace_id', 'cpu_usec']).execute()
const used = new Map(known.map(({ workspace_id, cpu_usec }) => [workspace_id, cpu_usec]))
for (let step = 0; ; step += 1) {
  const wall_ms = began_ms + step * 10 * 60_000
  const now = () => new Date(wall_ms)
  const clock = { now, monotonic_ms: () => step * 15_000 }
  const mark = { run, monotonic_ms: clock.monotonic_ms() }
  for (const id of workspaces) used.set(id, (used.get(id) ?? 0) + 1_234_567)
  const read = workspaces.map((workspace_id) => ({
    ...{ workspace_id, epoch: 1, fence: 7, memory_bytes: 2 ** 29, disk_bytes: 2 ** 30 },
    ...{ cpu_usec: used.get(workspace_id) ?? 0, received_bytes: 0, sent_bytes: 0 },
  }))
  await addSamples(db, read, now(), 30_000, mark)
  process.stdout.write(`${[...used.values()].reduce((sum, each) => sum + each, 0)}\n`)
  await addStoredVolumes(db, [{ volume_id, stored_bytes: 2 ** 31 }], now(), mark)
  await Promise.all([1, 2].map(() => closeLedger({ db, clock })))
}
