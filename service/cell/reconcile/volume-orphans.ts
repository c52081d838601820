import type { Inventory, VolumeHere } from '../../../contract/internal/host-inventory.ts'
import type { VolumeHeader } from '../../../contract/internal/host-subject.ts'
import { HostFailure } from '../host/hostd.ts'
import { volumeSubject } from '../host/subject.ts'
import { guarded, mayRemove, report, type ReconcilePass } from './reconcile-pass.ts'
import { readFates } from '../operations/volumes/store.ts'

const DAY_MS = 24 * 3600 * 1000

/**
 * A restored database has no rows of newer volumes, so volumes without a row are first kept in quarantine.
 * Rows are read after the inventory, and a row exists before its volume.
 */
export async function sweepVolumes(sweep: ReconcilePass, { volumes }: Inventory): Promise<void> {
  if (volumes.length === 0) return
  const fates = await readFates(
    sweep.db,
    volumes.map(({ volume_id }) => volume_id),
  )
  for (const one of volumes) {
    const fate = fates.get(one.volume_id)
    if (fate === 'kept' && one.kept_since === undefined) continue
    if (fate === undefined && one.kept_since !== undefined && !isOver(sweep, one)) continue
    if (!mayRemove(sweep)) return
    await guarded(sweep, `volume ${one.volume_id}`, () => settle(sweep, one, fate))
  }
}

async function settle(sweep: ReconcilePass, { volume_id, kept_since }: VolumeHere, fate: 'kept' | 'deleted' | undefined): Promise<void> {
  if (fate === 'kept') return keep(sweep, volume_id, false) // out of quarantine: another restore has brought its row back
  if (fate === 'deleted' || kept_since !== undefined) {
    await sweep.host.deleteVolume(speak(sweep, volume_id, 'delete'))
    report(sweep, 'volume_deleted', `volume ${volume_id}: deleted what was left of it`)
    return
  }
  await keep(sweep, volume_id, true)
  report(sweep, 'quarantined', `volume ${volume_id}: no row has ever named it; it is kept for ${sweep.quarantine_days} days`)
}

async function keep(sweep: ReconcilePass, volume_id: string, is_kept: boolean): Promise<void> {
  try {
    await sweep.host.keepVolume({ ...speak(sweep, volume_id, is_kept ? 'keep' : 'release'), keep: is_kept })
  } catch (error) {
    if (!(error instanceof HostFailure) || error.code !== 'not_found') throw error
  }
}

/** If the clock is before the start of the quarantine, the quarantine has not ended. */
function isOver({ clock, quarantine_days }: ReconcilePass, { kept_since }: VolumeHere): boolean {
  return kept_since !== undefined && clock.now().getTime() - new Date(kept_since).getTime() >= quarantine_days * DAY_MS
}

function speak({ operation_id, fence }: ReconcilePass, volume_id: string, step: string): VolumeHeader {
  return { subject: volumeSubject(volume_id), operation_id, step: `sweep-${step}`, epoch: 0, fence }
}
