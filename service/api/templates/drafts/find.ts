import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { readerOf, type Reader } from '../../../db/reader.ts'
import type { Principal } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { maySee } from '../../calls/scope.ts'
import { findTemplate, type TemplatePath } from '../find.ts'
import type { TemplateRow } from '../store.ts'
import type { WorkspaceRow } from '../../workspaces/row.ts'
import { lockWorkspace } from '../../workspaces/store.ts'
import { readLiveDraft, type DraftRow } from './store.ts'

export interface DraftCall {
  who: Principal
  params: TemplatePath
}

/** A key of another project does not see the draft. */
export async function findDraft(reads: Reader, { who, params }: DraftCall): Promise<DraftRow> {
  const template = await findTemplate(reads, who, params)
  const draft = await readLiveDraft(reads, template.id)
  if (draft === null || !maySee(who, draft)) throw noDraft(template.slug)
  return draft
}

export interface LockedDraft {
  template: TemplateRow
  draft: DraftRow
  workspace: WorkspaceRow
}

export async function lockDraft(tx: ChangeTx, call: DraftCall): Promise<LockedDraft> {
  const { workspace_id } = await findDraft(readerOf(tx), call)
  const workspace = await lockWorkspace(tx, workspace_id)
  const draft = await findDraft(readerOf(tx), call)
  if (workspace === null || draft.workspace_id !== workspace_id) throw noDraft(draft.template_slug)
  return { template: await findTemplate(readerOf(tx), call.who, call.params), draft, workspace }
}

export function noDraft(slug: string) {
  return fail('not_found', 'draft_not_found', `${slug} has no draft`)
}

export function noState() {
  return fail('not_found', 'draft_state_not_found', 'The draft has no such state')
}
