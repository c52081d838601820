import type { Machine } from '../../../contract/internal/host-inventory.ts'
import type { Db } from '../../db/database.ts'
import type { Listener } from '../../db/listen.ts'
import type { Clock } from '../../lib/clock.ts'
import { createActivityLedger, type ActivityLedger } from './activity.ts'
import { createEntryReader, type EntryReader } from './entry-reader.ts'
import { cancelSuspend } from './cancel-suspend.ts'
import { readEntries, type EntryRow } from './store.ts'
import type { GoneReason, MachineTable, WorkspaceEntry } from './table.ts'
import type { LiveMachine } from '../host/live-machine.ts'

export interface LiveTable extends MachineTable {
  readonly activity: ActivityLedger
  known(): WorkspaceEntry[]
  /** Adds a machine as hostd reports it. Readers see the machine once the row has the same epoch. */
  putMachine(machine: Machine): void
  /** Marks the machine frozen or thawed. @param fence a machine with another fence is not changed. */
  markMachine(workspace_id: string, fence: number, state: 'running' | 'frozen'): void
  /** Records that the machine released its memory. No stream ends, since the workspace continues without a machine. */
  parkMachine(workspace_id: string, fence: number): void
  /** Records that the machine ended. @param fence a machine with another fence is not changed. */
  endMachine(workspace_id: string, fence: number, reason: GoneReason): void
  /** Whether the machine's death was reported, possibly before the commit that makes it the workspace's machine. */
  isDead(workspace_id: string, fence: number): boolean
  /** Whether a later machine has replaced this one, possibly before the commit that makes it the workspace's machine. */
  hasSuccessor(workspace_id: string, fence: number): boolean
  /** Resolves when every change that was notified before this call is stored. */
  settled(): Promise<void>
  preload(workspace_ids: string[]): Promise<void>
  close(): void
}

const DEATHS_MAX = 1000
const ENTRIES_MAX = 20_000

interface TableContext {
  db: Db
  listener: Listener
  clock: Clock
  cell_id: string
}

interface TableState extends TableContext {
  readonly activity: ActivityLedger
  readonly reader: EntryReader
  readonly entries_max: number
  readonly rows: Map<string, EntryRow>
  readonly machines: Map<string, LiveMachine>
  /** Ends the streams of each workspace's epoch. */
  readonly ends: Map<string, { epoch: number; controller: AbortController }>
  /** Each entry combines the row and the machine of one workspace. */
  readonly entries: Map<string, WorkspaceEntry>
  /** Keys of machines whose death was reported. */
  readonly deaths: Set<string>
}

/** @param entries_max limits the cached entries without a machine or calls. */
export function createMachineTable(context: TableContext, entries_max = ENTRIES_MAX): LiveTable {
  const state = newState(context, entries_max)
  const { activity, reader, entries } = state
  const stop = context.listener.on('berth_workspace', (id) => {
    if (id === null) reader.keepFresh([...state.rows.keys()])
    else if (state.rows.has(id)) reader.keepFresh([id])
  })
  return {
    activity,
    get: (workspace_id) => entries.get(workspace_id),
    load: async (workspace_id) => entries.get(workspace_id) ?? fresh(state, workspace_id),
    fresh: (workspace_id) => fresh(state, workspace_id),
    touch: activity.touch,
    keepalive: activity.keepalive,
    holdAwake: activity.holdAwake,
    seen: activity.seen,
    databaseLostMs: () => Math.max(context.listener.lost_ms(), reader.staleMs()),
    known: () => [...entries.values()],
    putMachine: (machine) => putMachine(state, machine),
    markMachine: (workspace_id, fence, to) => markMachine(state, workspace_id, fence, to),
    parkMachine: (workspace_id, fence) => parkMachine(state, workspace_id, fence),
    endMachine: (workspace_id, fence, reason) => endMachine(state, workspace_id, fence, reason),
    isDead: (workspace_id, fence) => state.deaths.has(deathKey(workspace_id, fence)),
    hasSuccessor: (workspace_id, fence) => (state.machines.get(workspace_id)?.fence ?? 0) > fence,
    settled: reader.settled,
    preload: (workspace_ids) => preload(state, workspace_ids),
    close() {
      stop()
      reader.close()
    },
  }
}

function newState(context: TableContext, entries_max: number): TableState {
  const state: TableState = {
    ...context,
    activity: createActivityLedger(context.clock),
    reader: createEntryReader(async (ids) => accept(state, ids, await readEntries(context.db, ids))),
    entries_max,
    rows: new Map(),
    machines: new Map(),
    ends: new Map(),
    entries: new Map(),
    deaths: new Set(),
  }
  return state
}

async function fresh({ reader, entries }: TableState, workspace_id: string): Promise<WorkspaceEntry | undefined> {
  await reader.read(workspace_id)
  return entries.get(workspace_id)
}

async function preload(state: TableState, workspace_ids: string[]): Promise<void> {
  if (workspace_ids.length > 0) accept(state, workspace_ids, await readEntries(state.db, workspace_ids))
}

/** Stores the rows that were found. A requested workspace without a row does not exist. */
function accept(state: TableState, asked: string[], found: EntryRow[]): void {
  for (const row of found) {
    state.rows.set(row.id, row)
    // Checked here too, because this notification may arrive after the tool call that cancels the request.
    void cancelSuspend(state.db, row, state.activity.lastToolCall(row.id) ?? null)
  }
  const present = new Set(found.map(({ id }) => id))
  for (const id of asked) {
    if (present.has(id)) build(state, id)
    else forget(state, id)
  }
  shrink(state, 2 * asked.length)
}

/**
 * Checks at most `looks` entries, twice the number of new ones. An entry that must stay moves to the end, so that later calls check other
 * ones.
 */
function shrink(state: TableState, looks: number): void {
  const { entries, machines, activity, entries_max } = state
  for (const [id, entry] of entries) {
    if (entries.size <= entries_max || looks === 0) return
    looks -= 1
    if (!machines.has(id) && !activity.inUse(id)) {
      forget(state, id)
      continue
    }
    entries.delete(id)
    entries.set(id, entry)
  }
}

function forget({ rows, entries, machines, ends }: TableState, workspace_id: string): void {
  rows.delete(workspace_id)
  entries.delete(workspace_id)
  machines.delete(workspace_id)
  ends.get(workspace_id)?.controller.abort('deleted' satisfies GoneReason)
  ends.delete(workspace_id)
}

function build(state: TableState, workspace_id: string): void {
  const { rows, machines, deaths, entries, cell_id } = state
  const row = rows.get(workspace_id)
  if (!row) return
  const controller = endOf(state, row)
  if (row.deleted_at !== null) controller.abort('deleted' satisfies GoneReason)
  forgetPast(state, row)
  const machine = machines.get(workspace_id)
  const is_its = machine !== undefined && machine.epoch === row.ownership_epoch && row.residency === 'resident'
  const fits = is_its && !deaths.has(deathKey(workspace_id, machine.fence))
  entries.set(
    workspace_id,
    Object.freeze({ ...row, here: row.cell_id === cell_id, machine: fits ? machine : null, gone: controller.signal }),
  )
}

function endOf({ ends }: TableState, row: EntryRow): AbortController {
  const known = ends.get(row.id)
  if (known && known.epoch === row.ownership_epoch) return known.controller
  known?.controller.abort('epoch_ended' satisfies GoneReason)
  const controller = new AbortController()
  ends.set(row.id, { epoch: row.ownership_epoch, controller })
  return controller
}

/**
 * Removes a machine of an earlier epoch or of a deleted workspace. A machine of a later epoch is not removed: its commit is still to come.
 */
function forgetPast({ machines }: TableState, { id, ownership_epoch, deleted_at }: EntryRow): void {
  const machine = machines.get(id)
  if (machine !== undefined && (deleted_at !== null || machine.epoch < ownership_epoch)) machines.delete(id)
}

function putMachine(state: TableState, machine: Machine): void {
  const { id } = machine.subject
  state.machines.set(id, liveMachine(machine, state.machines.get(id)))
  build(state, id)
}

function markMachine(state: TableState, workspace_id: string, fence: number, to: 'running' | 'frozen'): void {
  const known = state.machines.get(workspace_id)
  if (known?.fence !== fence) return
  state.machines.set(workspace_id, { ...known, state: to, stood_still: known.stood_still + (to === 'frozen' ? 1 : 0) })
  build(state, workspace_id)
}

function parkMachine(state: TableState, workspace_id: string, fence: number): void {
  if (state.machines.get(workspace_id)?.fence !== fence) return
  state.machines.delete(workspace_id)
  build(state, workspace_id)
}

function endMachine(state: TableState, workspace_id: string, fence: number, reason: GoneReason): void {
  const { machines, ends, rows, deaths } = state
  if (reason === 'died') rememberDeath(deaths, deathKey(workspace_id, fence))
  const machine = machines.get(workspace_id)
  if (machine?.fence !== fence) return
  machines.delete(workspace_id)
  const end = ends.get(workspace_id)
  // Only the end of a resident machine ends streams: a machine that was still being restored has none.
  if (end?.epoch === machine.epoch && rows.get(workspace_id)?.residency === 'resident') end.controller.abort(reason)
  build(state, workspace_id)
}

/**
 * Merges a report of the host, which may be older than this process's own freeze, so `frozen` wins.
 * A running machine recorded as frozen is thawed before its next call, which is harmless. A frozen machine recorded as running would hang
 * its callers.
 */
export function liveMachine(machine: Machine, before: LiveMachine | undefined): LiveMachine {
  const { address, agent_key, agent_protocol, epoch, fence, state, freezer_file } = machine
  const known = before?.fence === fence ? before : undefined
  const parked = known?.state === 'frozen' && state === 'running' ? 'frozen' : state
  const stood_still = known?.stood_still ?? 0
  const refused = machine.engine_refused === true ? ({ engine_refused: true } as const) : {}
  return { address, agent_key, agent_protocol, epoch, fence, state: parked, freezer_file: freezer_file ?? null, stood_still, ...refused }
}

function deathKey(workspace_id: string, fence: number): string {
  return `${workspace_id}:${fence}`
}

/** Remembers only the last deaths: a death matters only while the commit of its machine is under way. */
function rememberDeath(deaths: Set<string>, key: string): void {
  deaths.add(key)
  const [oldest] = deaths
  if (deaths.size > DEATHS_MAX && oldest !== undefined) deaths.delete(oldest)
}
