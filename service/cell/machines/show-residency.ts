import type { Residency } from '../../../contract/schemas/cell/idle.ts'
import { factsOf, hasMachine, type ResidencyContext, type WatchedMachines } from './residency-clock.ts'
import { firstSeconds, keptBy, parkAfterOf, type Kept } from './residency-rules.ts'
import type { WorkspaceEntry } from './table.ts'

export type ShowResidency = (entry: WorkspaceEntry, commands_run: boolean, now: Date) => Shown
export type Shown = Omit<Residency, 'park_at'> & { park_at: Date | null }

export function residencyViewer(
  context: Pick<ResidencyContext, 'table' | 'parking' | 'started_at' | 'park_after'>,
  watched: WatchedMachines,
): ShowResidency {
  return (entry, commands_run, now) => {
    const after = parkAfterOf(context.park_after, entry.background)
    const seconds = firstSeconds(after)
    const terms = { park_after_seconds: seconds === 0 ? null : seconds, park_after_by: after.by }
    const nothing = { reason: null, park_at: null }
    if (entry.observed_state !== 'running') return { state: null, ...nothing, ...terms }
    if (!hasMachine(entry)) return { state: entry.residency, ...nothing, ...terms }
    if (entry.machine.state === 'frozen') return { state: 'frozen', ...nothing, ...terms }
    const kept: Kept = keptBy(factsOf(context, watched, entry), commands_run, after, now)
    return { state: 'resident', ...kept, ...terms }
  }
}
