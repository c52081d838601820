import pino from 'pino'
import { createObservedPolicies, type ObservedPolicies } from '../../service/cell/policies/egress/observed-policies.ts'
import { enforcing } from '../../service/cell/policies/egress/enforcing.ts'
import { startEngine, type Engine } from '../../service/cell/engine.ts'
import { createFakeHost, type FakeHost, type FakeOptions } from '../../service/cell/host/fake/host.ts'
import { lookAtAllowances } from '../../service/cell/machines/allowance-clock.ts'
import type { AskActivity } from '../../service/cell/machines/activity-query.ts'
import { flushActivity } from '../../service/cell/machines/flush.ts'
import { checkIdle } from '../../service/cell/machines/idle-clock.ts'
import { createMachineTable, type LiveTable } from '../../service/cell/machines/live-table.ts'
import { createParking, type Parking } from '../../service/cell/machines/parking.ts'
import { createAgentCallCounter } from '../../service/cell/machines/agent-calls.ts'
import type { PortsDeps } from '../../service/cell/ports/ports.ts'
import { createCapacityAllocator } from '../../service/cell/capacity/allocator.ts'
import { createTrees, type Trees } from '../../service/cell/filetree/trees/trees.ts'
import { openDatabase } from '../../service/db/database.ts'
import { cellChannels, openListener } from '../../service/db/listen.ts'
import { startupGuests, type StartupGuests } from '../support/startup-guest.ts'
import { treesFolder } from '../support/trees-folder.ts'
import { world, type Answer, type CallOptions, type World, type WorldOptions } from './support.ts'

export interface CellWorld extends World {
  host: FakeHost
  egress: ObservedPolicies
  trees: Trees
  table: LiveTable
  parking: Parking
  engine: Engine
  ports_deps: PortsDeps
  guests: { busy_until(asked: Parameters<AskActivity>[0]): Promise<Date | null> }
  startup: StartupGuests
  /** Runs one pass of the cell's clocks, and writes all activity to the rows. */
  look(): Promise<void>
  advance(seconds: number): void
  ready(key: string, body?: object, options?: CallOptions): Promise<string>
  ended(operation_id: string, options?: CallOptions): Promise<Answer['body']>
  operations(workspace_id: string, query?: string): Promise<Answer['body'][]>
}

export async function worldWithCell(options: FakeOptions = {}, given: WorldOptions = {}): Promise<CellWorld> {
  const w = await world(given)
  const fake = createFakeHost(options)
  const db = openDatabase(w.database.options('berth_cell'))
  const { cell_id, clock, ids } = w
  const listener = await openListener(w.database.options('berth_cell'), cellChannels(cell_id))
  const table = createMachineTable({ db, listener, clock, cell_id })
  const log = pino({ level: process.env['BERTH_TEST_LOG'] ?? 'silent' })
  const egress = createObservedPolicies()
  const host = enforcing(fake, { db, clock, log, book: egress })
  const room = createCapacityAllocator({ db, cell_id })
  const parking = createParking({ cell_id, db, clock, ids, host, table, room, log })
  const startup = startupGuests()
  const trees = createTrees({ db, clock, folder: treesFolder() })
  const cell = {
    cell_id,
    db,
    clock,
    ids,
    host,
    table,
    room,
    parking,
    agents: startup.agents,
    secrets: startup.secrets,
    trees,
    executions: { recover: async () => undefined, endAbandoned: async () => 0 },
    log,
  }
  const guests: CellWorld['guests'] = { busy_until: () => Promise.resolve(null) }
  const ask_activity: AskActivity = async (asked) => ({
    busy_until: await guests.busy_until(asked),
    last_ended_at: null,
    running: 0,
    commands: [],
  })
  const engine = startEngine({
    cell: { ...cell, quarantine_days: 7, warm_machines_max: 8 },
    listener,
    egress,
    database: w.database.options('berth_cell'),
    endpoint: 'http://one.cell.test',
    ask_activity,
    questions: createAgentCallCounter(),
    park_after: { freeze_after_seconds: 0, hibernate_after_seconds: 0 },
  })
  await engine.ready
  return {
    ...w,
    host: fake,
    egress,
    trees,
    table,
    parking,
    engine,
    ports_deps: { ...cell, listener, waking: parking },
    guests,
    startup,
    async look() {
      await flushActivity(db, table)
      await checkIdle({ ...cell, ask_activity, started_at: new Date(0) })
      await lookAtAllowances(cell)
    },
    advance(seconds) {
      clock.ahead_ms += seconds * 1000
    },
    async ready(key, body = {}, given = {}) {
      const { status, body: answer } = await w.open(key, body, { ...given, headers: { prefer: 'wait=20', ...given.headers } })
      if (status !== 200) throw new Error(`open answered ${status}: ${JSON.stringify(answer)}`)
      return answer.workspace.id
    },
    async ended(operation_id, given = {}) {
      for (;;) {
        const { status, body } = await w.get(`/v1/operations/${operation_id}`, { ...given, headers: { prefer: 'wait=20' } })
        if (status !== 200 || body.completed_at !== null) return body
      }
    },
    operations: async (workspace_id, query = '') => (await w.get(`/v1/workspaces/${workspace_id}/operations${query}`)).body.data,
    async [Symbol.asyncDispose]() {
      await engine.close(5000)
      table.close()
      await listener.close()
      await db.destroy()
      await w[Symbol.asyncDispose]()
    },
  }
}
