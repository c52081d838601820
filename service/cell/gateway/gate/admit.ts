import { LIMITS } from '../../../../contract/limits.ts'
import type { Clock } from '../../../lib/clock.ts'
import { fail, Failure } from '../../../lib/fail.ts'
import { wakeFailed } from '../../machines/parking-refusals.ts'
import type { Waking } from '../../machines/parking.ts'
import type { LiveMachine, MachineTable, WorkspaceEntry } from '../../machines/table.ts'
import { diskOf, diskUnavailable, type DiskSource } from '../disk/source.ts'
import { decideSituation, refusalOf, type Situation, unreachable, type Wanted } from './situation.ts'

/**
 * What is asked for: the machine, which is woken where it is parked; the files, which a disk without a machine can show, too; or the
 * workspace as it stands.
 */
export type Needs = 'machine' | 'files' | 'nothing'

/** Somebody who wants to use a workspace: a tool call, or whoever else reaches machines through this cell. */
export interface Admission<Held extends Disposable> extends Omit<Wanted, 'cell_id'> {
  workspace_id: string
  needs: Needs
  /** What it needs is of a tree, too: a workspace without a machine serves it. */
  tree?: boolean
  /**
   * Keeps the workspace in use until it is disposed of, and may refuse. It is called when the workspace is found to serve and before
   * anything of it is woken. What it does takes time: the workspace is looked at anew after it.
   */
  hold(entry: WorkspaceEntry): Promise<Held> | Held
}

/** By what a workspace serves. `held` is disposed of when it need not any more. */
export type Admitted<Held extends Disposable> = { entry: WorkspaceEntry; held: Held } & Served

type Served = { by: 'machine'; machine: LiveMachine } | { by: 'disk'; source: DiskSource } | { by: 'nothing' }

export interface Admitting {
  table: MachineTable
  waking: Waking
  clock: Clock
  cell_id: string
}

/** What is asked for again and again. */
type Asked = Pick<Admission<Disposable>, 'workspace_id' | 'needs' | 'tree' | 'read_only' | 'refusedBy'>

/** A workspace and how it stands to whoever asks. */
interface Found {
  entry: WorkspaceEntry
  situation: Situation
}

/**
 * The one way to a workspace that this cell serves. Parked ones are woken; one that is suspended, or held by an operation, is refused.
 * @throws every refusal that a workspace's address, mode, operation, state or host is a reason for, and those of `hold`.
 */
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

/** Why somebody like this would be refused by now; null where not. Without its database the cell still knows what it knew. */
export async function refusedNow({ table, cell_id }: Admitting, { workspace_id, ...wanted }: Asked): Promise<Failure | null> {
  const seen = await table.fresh(workspace_id).catch(() => table.get(workspace_id))
  if (seen === undefined || seen.deleted_at !== null) return fail('unauthenticated', 'revoked_workspace', 'The workspace was deleted')
  return refusalOf(decideSituation(seen, { ...wanted, cell_id }))
}

/** From the moment on that it is held: by what it serves, woken where that is needed. */
async function serve(deps: Admitting, asked: Asked, found: WorkspaceEntry): Promise<{ entry: WorkspaceEntry } & Served> {
  // Nothing keeps a suspended workspace's disk from changing hands: its reader finds out.
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

/** From memory; and anew before anybody is refused, since a change that the caller has just been told of may be on its way here. */
async function look({ table, cell_id }: Admitting, { workspace_id, ...asked }: Asked): Promise<Found> {
  const wanted = { ...asked, cell_id }
  const seen = table.get(workspace_id)
  const situation = seen === undefined ? undefined : decideSituation(seen, wanted)
  if (seen !== undefined && situation !== undefined && refusalOf(situation) === null) return { entry: seen, situation }
  const entry = await table.fresh(workspace_id)
  if (entry === undefined) throw fail('not_found', null, 'There is no such workspace')
  return { entry, situation: decideSituation(entry, wanted) }
}

/** What this one is refused with: the files of a suspended workspace are read from its disk, and only some are served without a machine. */
function refusalTo({ needs, tree }: Asked, entry: WorkspaceEntry, situation: Situation): Failure | null {
  if (situation.kind === 'machineless') return needs === 'nothing' || tree === true ? null : unreachable()
  if (needs !== 'files' || situation.kind !== 'suspended') return refusalOf(situation)
  return diskOf(entry) === null ? diskUnavailable() : null
}
