import { LIMITS } from '../../../contract/limits.ts'
import type { Clock } from '../../lib/clock.ts'
import { fail, type Failure } from '../../lib/fail.ts'
import { wakeFailed } from '../machines/parking-refusals.ts'
import type { Waking } from '../machines/parking.ts'
import type { MachineTable, WorkspaceEntry } from '../machines/table.ts'
import type { LiveMachine } from '../host/live-machine.ts'
import { diskOf, diskUnavailable, type DiskSource } from './disk/source.ts'
import { decideSituation, refusalOf, type Situation, unreachable, type Wanted } from './situation.ts'

/** `machine`: a parked machine is woken. `files`: a disk can answer, too. */
export type Needs = 'machine' | 'files' | 'nothing'

export interface Admission<Held extends Disposable> extends Omit<Wanted, 'cell_id'> {
  workspace_id: string
  needs: Needs
  /** True if a file-first workspace serves the call without a machine. */
  tree?: boolean
  /** Marks the workspace as in use until disposed; may refuse. Called before a wake; the workspace is looked up again afterwards. */
  hold(entry: WorkspaceEntry): Promise<Held> | Held
}

/** The caller disposes of `held`. */
export type Admitted<Held extends Disposable> = { entry: WorkspaceEntry; held: Held } & Served

type Served = { by: 'machine'; machine: LiveMachine } | { by: 'disk'; source: DiskSource } | { by: 'nothing' }

export interface Admitting {
  table: MachineTable
  waking: Waking
  clock: Clock
  cell_id: string
}

type Asked = Pick<Admission<Disposable>, 'workspace_id' | 'needs' | 'tree' | 'read_only' | 'refusedBy'>

interface Found {
  entry: WorkspaceEntry
  situation: Situation
}

/** @throws refusals for the workspace's address, mode, operation, state or host, and those of `hold` */
export async function admitTo<Held extends Disposable>(deps: Admitting, admission: Admission<Held>): Promise<Admitted<Held>> {
  const { hold, ...asked } = admission
  const { entry, situation } = await look(deps, asked)
  const failure = refusalTo(asked, entry, situation)
  if (failure !== null) throw failure
  const held = await hold(entry)
  try {
    return { ...(await serve(deps, asked, entry)), held }
  } catch (error) {
    held[Symbol.dispose]()
    throw error
  }
}

/** @returns the refusal that applies now, or null. Without the database, the last row in memory decides. */
export async function refusedNow({ table, cell_id }: Admitting, { workspace_id, ...wanted }: Asked): Promise<Failure | null> {
  const seen = await table.fresh(workspace_id).catch(() => table.get(workspace_id))
  if (seen === undefined || seen.deleted_at !== null) return fail('unauthenticated', 'revoked_workspace', 'The workspace was deleted')
  return refusalOf(decideSituation(seen, { ...wanted, cell_id }))
}

async function serve(deps: Admitting, asked: Asked, found: WorkspaceEntry): Promise<{ entry: WorkspaceEntry } & Served> {
  // No hold prevents changes of a suspended workspace's disk, so the disk reader checks for them.
  const asleep = asked.needs === 'files' && found.observed_state === 'suspended' ? diskOf(found) : null
  if (asleep !== null) return { entry: found, by: 'disk', source: asleep }
  const until_ms = deps.clock.monotonic_ms() + LIMITS.idle.wake_seconds_max * 1000
  for (;;) {
    const { entry, situation } = await look(deps, asked)
    const failure = refusalTo(asked, entry, situation)
    if (failure !== null) throw failure
    if (asked.needs === 'nothing' || situation.kind === 'machineless') return { entry, by: 'nothing' }
    const source = asked.needs === 'files' && situation.kind !== 'resident' ? diskOf(entry) : null
    if (source !== null) return { entry, by: 'disk', source }
    const machine = deps.waking.ready(entry)
    if (machine !== null) return { entry, by: 'machine', machine }
    if (deps.clock.monotonic_ms() > until_ms) throw wakeFailed()
    await deps.waking.wake(entry)
  }
}

/** Reads the row before a refusal: the caller may know of a change whose notification has not arrived yet. */
async function look({ table, cell_id }: Admitting, { workspace_id, ...asked }: Asked): Promise<Found> {
  const wanted = { ...asked, cell_id }
  const seen = table.get(workspace_id)
  const situation = seen === undefined ? undefined : decideSituation(seen, wanted)
  if (seen !== undefined && situation !== undefined && refusalOf(situation) === null) return { entry: seen, situation }
  const entry = await table.fresh(workspace_id)
  if (entry === undefined) throw fail('not_found', null, 'There is no such workspace')
  return { entry, situation: decideSituation(entry, wanted) }
}

function refusalTo({ needs, tree }: Asked, entry: WorkspaceEntry, situation: Situation): Failure | null {
  if (situation.kind === 'machineless') return needs === 'nothing' || tree === true ? null : unreachable()
  if (needs !== 'files' || situation.kind !== 'suspended') return refusalOf(situation)
  return diskOf(entry) === null ? diskUnavailable() : null
}
