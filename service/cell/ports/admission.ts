import type { Clock } from '../../lib/clock.ts'
import { databaseIsUnavailable } from '../../http/database-failure.ts'
import { Failure } from '../../lib/fail.ts'
import { admitTo, type Admitting } from '../gateway/gate/admit.ts'
import { decideSituation } from '../gateway/gate/situation.ts'
import type { LiveMachine, WorkspaceEntry } from '../machines/table.ts'
import type { WorkspaceChanges } from './changes.ts'
import type { Place } from './frames.ts'
import { Refusal, refusalOf } from './refusal.ts'
import type { Resumed } from './resume-store.ts'

export interface VisitDeps extends Admitting {
  clock: Clock
  changes: WorkspaceChanges
  /** Begins to resume a suspended workspace; throws what its plan refuses. */
  resume(visit: Visit): Promise<Resumed>
}

/** Somebody with a good credential. */
export interface Visit {
  workspace_id: string
  port: number
}

/** A machine that runs, and what keeps it so until it is disposed of. */
export interface Admittance {
  entry: WorkspaceEntry
  place: Place
  held: Disposable
}

/** A change may be told of before it can be read, and one that nobody tells of is a host that comes back. */
const LOOK_AGAIN_MS = 500

/**
 * The machine of a workspace, which is woken, resumed or waited for (Cell, "Port-exposed workspaces").
 * @param signal fires when the visitor does not wait any longer: what is under way by then goes on without them.
 * @throws a Refusal.
 */
export async function admitVisitor(deps: VisitDeps, visit: Visit, signal: AbortSignal): Promise<Admittance> {
  for (;;) {
    if (signal.aborted) throw new Refusal('starting_timeout', 1)
    const waiting = new AbortController()
    const changed = deps.changes.next(visit.workspace_id, LOOK_AGAIN_MS, AbortSignal.any([signal, waiting.signal]))
    try {
      const admitted = await step(deps, visit)
      if (admitted !== null) return givenUnless(signal, admitted)
      await changed
    } catch (error) {
      throw refusalOf(error)
    } finally {
      waiting.abort()
    }
  }
}

/** Nobody is there any more who could use it. */
function givenUnless(signal: AbortSignal, admitted: Admittance): Admittance {
  if (!signal.aborted) return admitted
  admitted.held[Symbol.dispose]()
  throw new Refusal('starting_timeout', 1)
}

/** @returns null where there is something to wait for. */
async function step(deps: VisitDeps, visit: Visit): Promise<Admittance | null> {
  const entry = await look(deps, visit)
  if (entry === undefined || entry.deleted_at !== null) throw new Refusal('workspace_gone')
  const situation = decideSituation(entry, { cell_id: deps.cell_id, ...AS_ANYBODY })
  switch (situation.kind) {
    case 'resident':
    case 'parked':
      return admitted(deps, visit)
    case 'suspended':
      if ((await deps.resume(visit)) === 'failed') throw new Refusal('resume_failed', 10)
      return null
    case 'moving':
      return null
    case 'machineless':
      throw new Refusal('workspace_failed')
    case 'refused':
      throw situation.failure.reason === 'stale_endpoint' ? new Refusal('unavailable', 1) : new Refusal('workspace_failed')
  }
}

/**
 * As it is at this moment: a suspend that its owner was just told of may not have been heard of here, and a visitor who was let in for a
 * while would meet its end. While the database is away, as it was last.
 */
async function look({ table }: VisitDeps, { workspace_id }: Visit): Promise<WorkspaceEntry | undefined> {
  try {
    return await table.fresh(workspace_id)
  } catch (error) {
    const known = table.get(workspace_id)
    if (known === undefined || !databaseIsUnavailable(error)) throw error
    return known
  }
}

/** A visitor changes things, and has no epoch. */
const AS_ANYBODY = { read_only: false, refusedBy: () => null }

async function admitted(deps: VisitDeps, { workspace_id, port }: Visit): Promise<Admittance | null> {
  // Not a call: a suspend that its owner asks for does not wait for visitors.
  const hold = () => deps.table.holdAwake(workspace_id, 'stream', { route: `ports/${port}`, session_id: null })
  try {
    const { entry, held, ...served } = await admitTo(deps, { workspace_id, needs: 'machine', hold, ...AS_ANYBODY })
    if (served.by === 'machine' && !entry.gone.aborted) return { entry, place: placeOf(served.machine), held }
    held[Symbol.dispose]()
    return null
  } catch (error) {
    if (error instanceof Failure && MOVING.has(error.code)) return null
    throw error
  }
}

/** What it was found to be is over: it is looked at again. */
const MOVING: ReadonlySet<string> = new Set(['workspace_busy', 'workspace_not_running', 'dependency_unavailable', 'not_found'])

/** The fence names a machine and no other, also one that was woken in the epoch of before. */
export function placeOf({ address, fence }: LiveMachine): Place {
  return { address: address.slice(0, address.lastIndexOf(':')), epoch: fence }
}
