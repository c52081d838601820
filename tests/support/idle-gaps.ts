import { EDGES, GAP_DECAY, type IdleGaps } from '../../service/core/workspaces/idle-gaps.ts'

/** Model of the trigger that writes `workspaces.idle_gaps`. service/cell/machines/idle-clock.test.ts compares the two at every edge. */
export function noteGap(gaps: IdleGaps | null, gap_seconds: number): IdleGaps | null {
  const bucket = EDGES.findLastIndex((edge) => edge <= gap_seconds)
  return bucket < 0 ? gaps : EDGES.map((_, i) => (gaps?.[i] ?? 0) * GAP_DECAY + (i === bucket ? 1 : 0))
}
