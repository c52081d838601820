import type { Db } from '../../service/db/database.ts'
import type { Clock } from '../../service/lib/clock.ts'
import type { Ids } from '../../service/lib/ids.ts'

export async function capturedState(
  { db, ids, clock }: { db: Db; ids: Ids; clock: Clock },
  workspace_id: string,
  operation_id: string,
): Promise<string> {
  const { organization_id, project_id, template_id } = await db
    .selectFrom('workspaces as w')
    .innerJoin('template_versions as v', 'v.id', 'w.template_version_id')
    .select(['w.organization_id', 'w.project_id', 'v.template_id'])
    .where('w.id', '=', workspace_id)
    .executeTakeFirstOrThrow()
  const [draft_id, id, created_at] = [ids.next(), ids.next(), clock.now()]
  const draft = { id: draft_id, organization_id, project_id, template_id, workspace_id, base_version: 1, created_at, discarded_at: null }
  await db.insertInto('template_drafts').values(draft).execute()
  await db.insertInto('template_draft_states').values({ id, draft_id, operation_id, label: null, layers: null, created_at }).execute()
  return id
}
