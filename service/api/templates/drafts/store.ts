import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Page } from '../../calls/pages.ts'
import type { WorkspaceRow } from '../../workspaces/row.ts'
import { WORKSPACE_TEXT } from '../../workspaces/store.ts'

export interface DraftRow {
  id: string
  organization_id: string
  project_id: string
  template_id: string
  template_slug: string
  workspace_id: string
  base_slug: string
  base_version: number
  /** Newest version that the draft includes; null: none. */
  draft_base_version: number | null
  latest_version: number | null
  created_at: Date
  discarded_at: Date | null
}

/** `draft_base_version` includes the versions that the draft has published itself. */
const DRAFT = `select d.id, d.organization_id, d.project_id, d.template_id, t.slug as template_slug, d.workspace_id,
  bt.slug as base_slug, bv.version as base_version, d.created_at, d.discarded_at,
  greatest(d.base_version, (select max(v.version) from template_builds b join template_versions v on v.id = b.version_id
    where b.template_id = d.template_id and b.kind = 'draft' and b.spec ->> 'workspace_id' = d.workspace_id::text)) as draft_base_version,
  (select v.version from template_versions v where v.template_id = d.template_id and v.published_at is not null and v.archived_at is null
   order by v.version desc limit 1) as latest_version
  from template_drafts d join templates t on t.id = d.template_id join workspaces w on w.id = d.workspace_id
  join template_versions bv on bv.id = w.template_version_id join templates bt on bt.id = bv.template_id`

export async function readLiveDraft(reads: Reader, template_id: string): Promise<DraftRow | null> {
  const [row] = await reads.rows<DraftRow>('drafts.live', `${DRAFT} where d.template_id = $1 and d.discarded_at is null`, [template_id])
  return row ?? null
}

/** Also returns a discarded draft. */
export async function readDraftOf(reads: Reader, workspace_id: string): Promise<DraftRow | null> {
  const [row] = await reads.rows<DraftRow>('drafts.of_workspace', `${DRAFT} where d.workspace_id = $1`, [workspace_id])
  return row ?? null
}

export interface NewDraft {
  id: string
  organization_id: string
  project_id: string
  template_id: string
  workspace_id: string
  base_version: number | null
  created_at: Date
}

export async function insertDraft(tx: ChangeTx, draft: NewDraft): Promise<void> {
  await tx
    .insertInto('template_drafts')
    .values({ ...draft, discarded_at: null })
    .execute()
}

export function listInstances(reads: Reader, draft_id: string, include_ended: boolean, page: Page): Promise<WorkspaceRow[]> {
  return reads.rows(
    'drafts.instances',
    `with of_draft as materialized (
       select id from workspaces
       where draft_state_id = any (array(select id from template_draft_states where draft_id = $1)) and ($2::boolean or deleted_at is null)
     ), page as materialized (select id from of_draft where $3::uuid is null or id < $3::uuid order by id desc limit $4)
     ${WORKSPACE_TEXT} where w.id in (select id from page) order by w.id desc`,
    [draft_id, include_ended, page.below, page.limit + 1],
  )
}

export interface StateRow {
  id: string
  label: string | null
  checkpoint_id: string
  operation_id: string
  size_bytes: number | null
  layers: string[] | null
  created_at: Date
}

/** A state exists from the end of its capture until its checkpoint is deleted. */
const STATE = `select s.id, s.label, c.id as checkpoint_id, s.operation_id, c.disk_bytes as size_bytes, s.layers, s.created_at
  from template_draft_states s join template_drafts d on d.id = s.draft_id
  join checkpoints c on c.workspace_id = d.workspace_id and c.operation_id = s.operation_id and c.kind = 'layer' and c.deleted_at is null`

export function listStates(reads: Reader, draft_id: string, page: Page): Promise<StateRow[]> {
  return reads.rows(
    'draft_states.list',
    `${STATE} where s.draft_id = $1 and ($2::uuid is null or s.id < $2::uuid) order by s.id desc limit $3`,
    [draft_id, page.below, page.limit + 1],
  )
}

/** @param id null: the newest. */
export async function readState(reads: Reader, draft_id: string, id: string | null): Promise<StateRow | null> {
  const [row] = await reads.rows<StateRow>(
    'draft_states.one',
    `${STATE} where s.draft_id = $1 and ($2::uuid is null or s.id = $2::uuid) order by s.id desc limit 1`,
    [draft_id, id],
  )
  return row ?? null
}

/** Also counts captures that are still running. */
export async function countStates(reads: Reader, draft_id: string): Promise<number> {
  const [row] = await reads.rows<{ states: number }>(
    'draft_states.count',
    `select count(*)::int as states from template_draft_states s
     join template_drafts d on d.id = s.draft_id
     left join checkpoints c on c.workspace_id = d.workspace_id and c.operation_id = s.operation_id and c.kind = 'layer' and c.deleted_at is null
     left join operations o on o.id = s.operation_id
     where s.draft_id = $1 and (c.id is not null or (o.id is not null and o.completed_at is null))`,
    [draft_id],
  )
  return row?.states ?? 0
}

export interface NewState {
  id: string
  draft_id: string
  operation_id: string
  label: string | null
  created_at: Date
}

export async function insertState(tx: ChangeTx, state: NewState): Promise<void> {
  await tx
    .insertInto('template_draft_states')
    .values({ ...state, layers: null })
    .execute()
}
