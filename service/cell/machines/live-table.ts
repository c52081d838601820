import type { Machine } from '../../../contract/internal/host-inventory.ts'
import type { Db } from '../../db/database.ts'
import type { Listener } from '../../db/listen.ts'
import type { Clock } from '../../lib/clock.ts'
import { createActivityLedger, type ActivityLedger } from './activity.ts'
import { createEntryReader } from './entry-reader.ts'
import { cancelSuspend } from './cancel-suspend.ts'
import { readEntries, type EntryRow } from './store.ts'
import type { GoneReason, MachineTable, WorkspaceEntry } from './table.ts'
import type { LiveMachine } from '../host/live-machine.ts'

export interface LiveTable extends MachineTable {
  readonly activity: ActivityLedger
  known(): WorkspaceEntry[]
  /** Adds a machine as hostd reports it. It shows as soon as the row is at its epoch. */
  putMachine(machine: Machine): void
  /** Marks it frozen or thawed. @param fence only this machine; a successor stays as it is. */
  markMachine(workspace_id: string, fence: number, state: 'running' | 'frozen'): void
  /** The machine has released its memory. No stream ends, since the workspace runs on without a machine. */
  parkMachine(workspace_id: string, fence: number): void
  /** The machine ended. @param fence only this machine; a successor stays. */
  endMachine(workspace_id: string, fence: number, reason: GoneReason): void
  /** Whether its death was reported, maybe before the commit that makes it the workspace's machine. */
  isDead(workspace_id: string, fence: number): boolean
  /** Whether a later machine has replaced it, maybe before the commit that makes it the workspace's machine. */
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

/** @param entries_max more stay only while they have a machine or calls. */
export function createMachineTable(context: TableContext, entries_max = ENTRIES_MAX): LiveTable {
  const { listener, clock, cell_id } = context
  const rows = new Map<string, EntryRow>()
  const machines = new Map<string, LiveMachine>()
  const ends = new Map<string, { epoch: number; controller: AbortController }>()
  const built = new Map<string, WorkspaceEntry>()
  const deaths = new Set<string>()
  const activity = createActivityLedger(clock)

  const endOf = (row: EntryRow): AbortController => {
    const known = ends.get(row.id)
    if (known && known.epoch === row.ownership_epoch) return known.controller
    known?.controller.abort('epoch_ended' satisfies GoneReason)
    const controller = new AbortController()
    ends.set(row.id, { epoch: row.ownership_epoch, controller })
    return controller
  }
  /** Drops a machine of an earlier epoch or of a deleted workspace. A machine of a later epoch awaits its commit. */
  const forgetPast = ({ id, ownership_epoch, deleted_at }: EntryRow) => {
    const machine = machines.get(id)
    if (machine !== undefined && (deleted_at !== null || machine.epoch < ownership_epoch)) machines.delete(id)
  }
  const build = (workspace_id: string) => {
    const row = rows.get(workspace_id)
    if (!row) return
    const controller = endOf(row)
    if (row.deleted_at !== null) controller.abort('deleted' satisfies GoneReason)
    forgetPast(row)
    const machine = machines.get(workspace_id)
    const is_its = machine !== undefined && machine.epoch === row.ownership_epoch && row.residency === 'resident'
    const fits = is_its && !deaths.has(deathKey(workspace_id, machine.fence))
    built.set(
      workspace_id,
      Object.freeze({ ...row, here: row.cell_id === cell_id, machine: fits ? machine : null, gone: controller.signal }),
    )
  }
  const forget = (workspace_id: string) => {
    rows.delete(workspace_id)
    built.delete(workspace_id)
    machines.delete(workspace_id)
    ends.get(workspace_id)?.controller.abort('deleted' satisfies GoneReason)
    ends.delete(workspace_id)
  }
  const accept = (asked: string[], found: EntryRow[]) => {
    for (const row of found) {
      rows.set(row.id, row)
      // The notification may arrive after the tool call that cancels the request.
      void cancelSuspend(context.db, row, activity.lastToolCall(row.id) ?? null)
    }
    const present = new Set(found.map(({ id }) => id))
    for (const id of asked) {
      if (present.has(id)) build(id)
      else forget(id)
    }
    shrink(2 * asked.length)
  }
  /** Checks at most twice the number of new entries. An entry that stays moves to the end, so that later calls check other ones. */
  const shrink = (looks: number) => {
    for (const [id, entry] of built) {
      if (built.size <= entries_max || looks === 0) return
      looks -= 1
      if (!machines.has(id) && !activity.inUse(id)) {
        forget(id)
        continue
      }
      built.delete(id)
      built.set(id, entry)
    }
  }
  const reader = createEntryReader(async (ids) => accept(ids, await readEntries(context.db, ids)))
  const stop = listener.on('berth_workspace', (id) => {
    if (id === null) reader.keepFresh([...rows.keys()])
    else if (rows.has(id)) reader.keepFresh([id])
  })

  const fresh = async (workspace_id: string) => {
    await reader.read(workspace_id)
    return built.get(workspace_id)
  }
  return {
    activity,
    get: (workspace_id) => built.get(workspace_id),
    load: async (workspace_id) => built.get(workspace_id) ?? fresh(workspace_id),
    fresh,
    touch: activity.touch,
    keepalive: activity.keepalive,
    holdAwake: activity.holdAwake,
    seen: activity.seen,
    databaseLostMs: () => Math.max(listener.lost_ms(), reader.staleMs()),
    known: () => [...built.values()],
    putMachine(machine) {
      machines.set(machine.subject.id, liveMachine(machine, machines.get(machine.subject.id)))
      build(machine.subject.id)
    },
    markMachine(workspace_id, fence, state) {
      const known = machines.get(workspace_id)
      if (known?.fence !== fence) return
      machines.set(workspace_id, { ...known, state, stood_still: known.stood_still + (state === 'frozen' ? 1 : 0) })
      build(workspace_id)
    },
    parkMachine(workspace_id, fence) {
      if (machines.get(workspace_id)?.fence !== fence) return
      machines.delete(workspace_id)
      build(workspace_id)
    },
    endMachine(workspace_id, fence, reason) {
      if (reason === 'died') rememberDeath(deaths, deathKey(workspace_id, fence))
      const machine = machines.get(workspace_id)
      if (machine?.fence !== fence) return
      machines.delete(workspace_id)
      const end = ends.get(workspace_id)
      // A machine that was still being restored has no streams to end.
      if (end?.epoch === machine.epoch && rows.get(workspace_id)?.residency === 'resident') end.controller.abort(reason)
      build(workspace_id)
    },
    isDead: (workspace_id, fence) => deaths.has(deathKey(workspace_id, fence)),
    hasSuccessor: (workspace_id, fence) => (machines.get(workspace_id)?.fence ?? 0) > fence,
    settled: reader.settled,
    async preload(workspace_ids) {
      if (workspace_ids.length > 0) accept(workspace_ids, await readEntries(context.db, workspace_ids))
    },
    close() {
      stop()
      reader.close()
    },
  }
}

/**
 * Merges a report of the host, which may be older than this process's own freeze. A machine wrongly taken for frozen is thawed before
 * its next call, which is harmless. A machine wrongly taken for running would hang its callers.
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

/** A death matters only while the commit of its machine is under way, so a short memory is enough. */
function rememberDeath(deaths: Set<string>, key: string): void {
  deaths.add(key)
  const [oldest] = deaths
  if (deaths.size > DEATHS_MAX && oldest !== undefined) deaths.delete(oldest)
}
