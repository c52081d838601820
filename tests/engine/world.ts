import assert from 'node:assert/strict'
import pino from 'pino'
import { cellChannels, openListener } from '../../service/db/listen.ts'
import { openDatabase, type Db } from '../../service/db/database.ts'
import { createFakeHost, type FakeHost, type FakeOptions } from '../../service/cell/host/fake/host.ts'
import { createObservedPolicies, type ObservedPolicies } from '../../service/cell/policies/egress/observed-policies.ts'
import { enforcing } from '../../service/cell/policies/egress/enforcing.ts'
import { createExecutions, type Executions } from '../../service/cell/filetree/executions/executions.ts'
import { startEngine, type Engine } from '../../service/cell/engine.ts'
import type { AskActivity } from '../../service/cell/machines/activity-query.ts'
import { createGuestLinks, type GuestLinks } from '../../service/cell/host/guest-links.ts'
import type { MachineHost } from '../../service/cell/host/hostd.ts'
import { registerCell } from '../../service/cell/machines/cells-store.ts'
import { createMachineTable, type LiveTable } from '../../service/cell/machines/live-table.ts'
import type { Comparing } from '../../service/cell/reconcile/watch.ts'
import { createParking, type Parking } from '../../service/cell/machines/parking.ts'
import { createCapacityAllocator, type CapacityAllocator } from '../../service/cell/capacity/allocator.ts'
import { createAgentCallCounter } from '../../service/cell/machines/agent-calls.ts'
import type { ParkAfter } from '../../service/cell/machines/residency-rules.ts'
import type { WorkspaceEntry } from '../../service/cell/machines/table.ts'
import { createTrees, type Trees } from '../../service/cell/filetree/trees/trees.ts'
import type { Clock } from '../../service/lib/clock.ts'
import { createIds, type Ids } from '../../service/lib/ids.ts'
import { freshDatabase, type TestDatabase } from '../support/postgres.ts'
import { startupGuests, type StartupGuests } from '../support/startup-guest.ts'
import { treesFolder } from '../support/trees-folder.ts'
import { createIntentions, until, type Intentions } from './intentions.ts'

/** Less than the minute until the reconciler's comparison, which would find the effect too. */
export const AT_ONCE_MS = 10_000

export class TestClock implements Clock {
  private offset_ms = 0
  private set_ms = 0
  now(): Date {
    return new Date(Date.now() + this.offset_ms + this.set_ms)
  }
  monotonic_ms(): number {
    return performance.now() + this.offset_ms
  }
  advance(seconds: number): void {
    this.offset_ms += seconds * 1000
  }
  /** Sets the wall clock alone: no time passes. */
  set(seconds: number): void {
    this.set_ms += seconds * 1000
  }
}

export interface Process {
  db: Db
  engine: Engine
  table: LiveTable
  parking: Parking
  room: CapacityAllocator
  executions: Executions
  egress: ObservedPolicies
  guests: GuestLinks
  /** Does not wait for running work. */
  kill(): Promise<void>
  close(): Promise<void>
  trees: Trees
}

export async function entryOf(process: Process, workspace_id: string): Promise<WorkspaceEntry> {
  const entry = await process.table.fresh(workspace_id)
  assert.ok(entry)
  return entry
}

const NEVER: ParkAfter = { freeze_after_seconds: 0, hibernate_after_seconds: 0 }

export interface StartOptions {
  ask_activity?: AskActivity
  park_after?: ParkAfter
  tries_max?: number
  /** Default: the host of the world. */
  host?: MachineHost
  /** Wait until the process acts for the cell. A second process never does. */
  wait?: boolean
  warm_machines_max?: number
  /** Default: as in an installation. */
  comparing?: Comparing
}

/** A cell with a fake host and a real database. */
export interface World extends Intentions, AsyncDisposable {
  database: TestDatabase
  db: Db
  host: FakeHost
  guests: StartupGuests
  clock: TestClock
  ids: Ids
  startProcess(options?: StartOptions): Promise<Process>
  until: typeof until
}

export async function createWorld(options: FakeOptions = {}): Promise<World> {
  const database = await freshDatabase()
  const db = database.superuser
  const clock = new TestClock()
  const ids = createIds(clock)
  const fake = createFakeHost(options)
  const guests = startupGuests()
  const trees_dir = treesFolder()
  const processes = new Set<Process>()
  const log = pino({ level: process.env['BERTH_TEST_LOG'] ?? 'silent' })

  const startProcess = async ({
    ask_activity = async () => null,
    park_after = NEVER,
    tries_max,
    host: given = fake,
    wait = true,
    warm_machines_max = 8,
    comparing,
  }: StartOptions = {}): Promise<Process> => {
    const connection = openDatabase(database.options('berth_cell'))
    const cell_id = await registerCell(connection, { id: ids.next(), name: 'here', endpoint: 'http://127.0.0.1:1' }, clock.now())
    const listener = await openListener(database.options('berth_cell'), cellChannels(cell_id))
    const table = createMachineTable({ db: connection, listener, clock, cell_id })
    const egress = createObservedPolicies()
    const host = enforcing(given, { db: connection, clock, log, book: egress })
    const room = createCapacityAllocator({ db: connection, cell_id })
    const parking = createParking({
      cell_id,
      db: connection,
      clock,
      ids,
      host,
      table,
      room,
      log,
      ...(tries_max === undefined ? {} : { tries_max }),
    })
    const trees = createTrees({ db: connection, clock, folder: trees_dir })
    const openLink = () => ({ link: guests.link('execution'), close: () => undefined })
    const executions = createExecutions({ cell_id, db: connection, clock, ids, host, room, trees, log, openLink })
    const cell = {
      cell_id,
      db: connection,
      clock,
      ids,
      host,
      table,
      room,
      parking,
      agents: guests.agents,
      secrets: guests.secrets,
      trees,
      executions,
      guests: createGuestLinks(),
      log,
    }
    const engine = startEngine({
      cell: { ...cell, quarantine_days: 7, warm_machines_max },
      listener,
      egress,
      database: database.options('berth_cell'),
      endpoint: 'http://127.0.0.1:1',
      ask_activity,
      questions: createAgentCallCounter(),
      park_after,
      ...(comparing === undefined ? {} : { comparing }),
    })
    const end = async (drain_ms: number) => {
      if (!processes.delete(started)) return
      await engine.close(drain_ms)
      table.close()
      await listener.close()
      await connection.destroy()
    }
    const parts = { db: connection, engine, table, parking, room, executions, egress, trees, guests: cell.guests }
    const started: Process = { ...parts, kill: () => end(0), close: () => end(5000) }
    processes.add(started)
    if (wait) await engine.ready
    return started
  }
  return {
    ...(await createIntentions(db, clock, ids, ['a'.repeat(64)])),
    database,
    db,
    host: fake,
    guests,
    clock,
    ids,
    startProcess,
    until,
    async [Symbol.asyncDispose]() {
      for (const one of processes) await one.kill()
      await database[Symbol.asyncDispose]()
    },
  }
}
