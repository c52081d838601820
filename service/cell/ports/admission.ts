import type { MachineAddress } from '../../../contract/internal/ports.ts'
import type { Clock } from '../../lib/clock.ts'
import { databaseIsUnavailable } from '../../http/database-failure.ts'
import { Failure } from '../../lib/fail.ts'
import { admitTo, type Admitting } from '../admission/admit.ts'
import { decideSituation } from '../admission/situation.ts'
import type { WorkspaceEntry } from '../machines/table.ts'
import type { LiveMachine } from '../host/live-machine.ts'
import type { WorkspaceChanges } from './changes.ts'
import { Refusal, refusalOf } from './refusal.ts'
import type { Resumed } from './resume-store.ts'

export interface VisitDeps extends Admitting {
  clock: Clock
  changes: WorkspaceChanges
  resume(visit: Visit): Promise<Resumed>
}

export interface Visit {
  workspace_id: string
  port: number
}

export interface Admittance {
  entry: WorkspaceEntry
  place: MachineAddress
  held: Disposable
}

/** Pause before another read: a change may be announced before it can be read, and a host's return is not announced. */
const LOOK_AGAIN_MS = 500

/**
 * Waits for the machine of a visited port (Cell, "Port-exposed workspaces").
 * @throws Refusal
 * @param signal ends this visitor's wait. A wake or resume in progress continues.
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

function givenUnless(signal: AbortSignal, admitted: Admittance): Admittance {
  if (!signal.aborted) return admitted
  admitted.held[Symbol.dispose]()
  throw new Refusal('starting_timeout', 1)
}

async function step(deps: VisitDeps, visit: Visit): Promise<Admittance | null> {
  const entry = await readEntry(deps, visit)
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
 * Reads the latest row: a suspend without a notification so far would cut the visitor off. Without the database the last known row is used.
 */
async function readEntry({ table }: VisitDeps, { workspace_id }: Visit): Promise<WorkspaceEntry | undefined> {
  try {
    return await table.fresh(workspace_id)
  } catch (error) {
    const known = table.get(workspace_id)
    if (known === undefined || !databaseIsUnavailable(error)) throw error
    return known
  }
}

/** Visitors may write, and have no epoch that could be refused. */
const AS_ANYBODY = { read_only: false, refusedBy: () => null }

async function admitted(deps: VisitDeps, { workspace_id, port }: Visit): Promise<Admittance | null> {
  // Held as a stream, since a requested suspend does not wait for visitors.
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

/** Retried, because the workspace has changed since it was read. */
const MOVING: ReadonlySet<string> = new Set(['workspace_busy', 'workspace_not_running', 'dependency_unavailable', 'not_found'])

/** The fencing token identifies exactly one machine, even if two had the same epoch. */
export function placeOf({ address, fence }: LiveMachine): MachineAddress {
  return { address: address.slice(0, address.lastIndexOf(':')), epoch: fence }
}
