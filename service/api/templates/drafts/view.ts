import type { DraftState, TemplateDraft } from '../../../../contract/schemas/template-drafts.ts'
import type { DraftRow, StateRow } from './store.ts'

export function draftView({ base_slug, base_version, created_at, discarded_at, ...row }: DraftRow): TemplateDraft {
  return {
    ...row,
    base: { slug: base_slug, version: base_version },
    stale: isStale(row),
    created_at: created_at.toISOString(),
    discarded_at: discarded_at?.toISOString() ?? null,
  }
}

/** Publishing the draft would lose changes of a newer version. */
export function isStale({ latest_version, draft_base_version }: Pick<DraftRow, 'latest_version' | 'draft_base_version'>): boolean {
  return latest_version !== null && latest_version > (draft_base_version ?? 0)
}

export function stateView({ layers: _, created_at, ...row }: StateRow): DraftState {
  return { ...row, created_at: created_at.toISOString() }
}
