import type { Logger } from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import type { CommandHeader } from '../../../contract/internal/host-subject.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Ids } from '../../lib/ids.ts'
import type { GuestLinks } from '../host/guest-links.ts'
import type { MachineHost } from '../host/hostd.ts'
import type { ReconcileMetrics, Recovery } from './recoveries.ts'
import type { LiveTable } from '../machines/live-table.ts'
import type { Parking } from '../machines/parking.ts'
import type { CapacityAllocator } from '../capacity/allocator.ts'
import { workspaceSubject } from '../host/subject.ts'
import { withTimeout } from '../../lib/poll.ts'

export interface ReconcileContext {
  cell_id: string
  db: Db
  clock: Clock
  ids: Ids
  host: MachineHost
  table: LiveTable
  log: Logger
  quarantine_days: number
  metrics?: ReconcileMetrics
  room?: Pick<CapacityAllocator, 'released' | 'ended'>
  one_ms?: number
  compared?: (is_whole: boolean) => void
  parking?: Pick<Parking, 'inTransition'>
  guests?: Pick<GuestLinks, 'died' | 'comparing'>
}

export interface ReconcilePass extends ReconcileContext {
  operation_id: string
  fence: number
  did: string[]
  failed: number
  removed: number
  /**
   * Workspaces in transition when the sweep began: their rows and machines may be read at different times. Later transitions have a higher
   * fence.
   */
  moving: ReadonlySet<string>
  /** Rows that are older than the host and could not be changed yet. */
  unsettled: Set<string>
}

export function report(sweep: ReconcilePass, what: Recovery, text: string): void {
  sweep.did.push(text)
  sweep.metrics?.recovered(what)
}

/** Time limit of one workspace. Removing files may take minutes: the host continues, and the next pass handles the rest. */
const ONE_MS = 10_000

/** Limits and catches: one workspace that fails or takes long must not block the others. */
export async function guarded(sweep: ReconcilePass, workspace_id: string, work: () => Promise<void>): Promise<void> {
  try {
    await withTimeout(sweep.one_ms ?? ONE_MS, 'putting one right', work())
  } catch (error) {
    sweep.failed += 1
    sweep.log.warn({ workspace_id, err: error }, 'could not be reconciled')
  }
}

export function passHeader(sweep: ReconcilePass, workspace_id: string, epoch: number, step: string): CommandHeader {
  return { subject: workspaceSubject(workspace_id), operation_id: sweep.operation_id, step: `sweep-${step}`, epoch, fence: sweep.fence }
}

/** A mass delete or a restored pool must not delay the handling of deaths and orphans. */
export function mayRemove(sweep: ReconcilePass): boolean {
  return (sweep.removed += 1) <= LIMITS.workspace.removals_per_sweep_max
}
