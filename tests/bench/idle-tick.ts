import pino from 'pino'
import { queryActivity } from '../../service/cell/machines/activity-query.ts'
import { checkIdle } from '../../service/cell/machines/idle-clock.ts'
import { createMachineTable } from '../../service/cell/machines/live-table.ts'
import { cellChannels, openListener } from '../../service/db/listen.ts'
import { systemClock } from '../../service/lib/clock.ts'
import { createIds } from '../../service/lib/ids.ts'
import { createIntentions } from '../engine/intentions.ts'
import { freshDatabase } from '../support/postgres.ts'
import { measure, timed } from './harness.ts'
import { fill } from './idle-store.ts'

// An idle service ticks every five seconds. The two databases differ only in the number of workspaces.

const FEW = 100
const MANY = 10_000

export async function idleTickRow(): Promise<void> {
  await using few = await filled(FEW)
  await using many = await filled(MANY)
  await measure(
    { row: 23, name: 'idle-tick-flat', title: `idle tick, for each of ${MANY} running workspaces`, bar: { at_most: 1.2 } },
    { reference: few.sample, subject: many.sample },
  )
}

async function filled(count: number) {
  const database = await freshDatabase()
  const ids = createIds(systemClock)
  const intentions = await createIntentions(database.superuser, systemClock, ids, ['a'.repeat(64)])
  const { workspace_id } = await intentions.open()
  const db = database.superuser
  const cell_id = ids.next()
  const now = systemClock.now()
  await db.insertInto('cells').values({ id: cell_id, name: 'bench', endpoint: 'http://bench.test', created_at: now }).execute()
  await fill(database, { workspace_id, cell_id, count })
  const listener = await openListener(database.options('berth_cell'), cellChannels(cell_id))
  const table = createMachineTable({ db: database.cell, listener, clock: systemClock, cell_id })
  const log = pino({ level: 'silent' })
  const context = { cell_id, db: database.cell, clock: systemClock, ids, table, log, ask_activity: queryActivity, started_at: new Date(0) }
  return {
    sample: async () => (await timed(() => checkIdle(context))) / count,
    async [Symbol.asyncDispose]() {
      table.close()
      await listener.close()
      await database[Symbol.asyncDispose]()
    },
  }
}
