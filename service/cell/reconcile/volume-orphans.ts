import { HostFailure, type Inventory, type VolumeFence, type VolumeHere } from '../host/hostd.ts'
import { volumeSubject } from '../host/subject.ts'
import { guarded, mayRemove, report, type ReconcilePass } from './reconcile-pass.ts'
import { readFates } from '../operations/volumes/store.ts'

const DAY_MS = 24 * 3600 * 1000

/**
 * A restored database does not know newer volumes: one without a row stays for the quarantine's days. Rows are read after the inventory,
 * and a row exists before its volume.
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
  if (fate === 'kept') return keep(sweep, volume_id, false) // another restore has brought its row back
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

/** A clock before the start of the quarantine ends nothing. */
function isOver({ clock, quarantine_days }: ReconcilePass, { kept_since }: VolumeHere): boolean {
  return kept_since !== undefined && clock.now().getTime() - new Date(kept_since).getTime() >= quarantine_days * DAY_MS
}

function speak({ operation_id, fence }: ReconcilePass, volume_id: string, step: string): VolumeFence {
  return { subject: volumeSubject(volume_id), operation_id, step: `sweep-${step}`, epoch: 0, fence }
}
