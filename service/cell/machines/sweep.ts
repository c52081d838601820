import type { Logger } from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Ids } from '../../lib/ids.ts'
import type { GuestLinks } from '../links/guest-links.ts'
import type { Fence, MachineHost } from '../links/hostd.ts'
import type { CellMetrics, Recovery } from '../metrics.ts'
import type { LiveTable } from './live-table.ts'
import type { Parking } from './parking.ts'
import type { Room } from '../room/room.ts'
import { workspaceSubject } from '../links/subject.ts'
import { bounded } from './ticking.ts'

export interface ReconcileContext {
  cell_id: string
  db: Db
  clock: Clock
  ids: Ids
  host: MachineHost
  table: LiveTable
  log: Logger
  /** For how long what no row names is kept. */
  quarantine_days: number
  /** Counts what is put right; a test does without. */
  metrics?: Pick<CellMetrics, 'recovered' | 'died'>
  /** Is told that a machine has ended; a test does without. */
  room?: Pick<Room, 'freed' | 'ended'>
  /** Tests: how long a comparison stays with one workspace. */
  one_ms?: number
  /** Told of each comparison whether it could put right all that it found; a test does without. */
  compared?: (is_whole: boolean) => void
  /** Moves between resident and parked put their own things right; a test does without. */
  parking?: Pick<Parking, 'moving'>
  /** Links to machines of other kinds end with them; a test does without. */
  guests?: Pick<GuestLinks, 'died' | 'comparing'>
}

/** One comparison of what the rows say with what the host has. */
export interface Sweep extends ReconcileContext {
  operation_id: string
  fence: number
  did: string[]
  /** How many workspaces could not be put right. */
  failed: number
  removed: number
  /** Moved when the sweep began: its row and its machine may be of two moments. Later moves have a higher fence. */
  moving: ReadonlySet<string>
  /** Their rows know less than the host, and could not be changed yet. */
  unsettled: Set<string>
}

export function report(sweep: Sweep, what: Recovery, text: string): void {
  sweep.did.push(text)
  sweep.metrics?.recovered(what)
}

/** Removing files may take the host minutes. It goes on with that, and the next comparison finds what is left. */
const ONE_MS = 10_000

/** One workspace that cannot be put right, or takes long, must not keep the others from it. */
export async function guarded(sweep: Sweep, workspace_id: string, work: () => Promise<void>): Promise<void> {
  try {
    await bounded(sweep.one_ms ?? ONE_MS, 'putting one right', work())
  } catch (error) {
    sweep.failed += 1
    sweep.log.warn({ workspace_id, err: error }, 'could not be reconciled')
  }
}

export function speak(sweep: Sweep, workspace_id: string, epoch: number, step: string): Fence {
  return { subject: workspaceSubject(workspace_id), operation_id: sweep.operation_id, step: `sweep-${step}`, epoch, fence: sweep.fence }
}

/** A delete of many files at once, or a pool that was put back, must not keep deaths and strays waiting. */
export function mayRemove(sweep: Sweep): boolean {
  return (sweep.removed += 1) <= LIMITS.workspace.removals_per_sweep_max
}
