import { LIMITS } from '../../contract/limits.ts'
import type { Db } from '../../service/db/database.ts'
import type { Clock } from '../../service/lib/clock.ts'
import type { Ids } from '../../service/lib/ids.ts'

interface World {
  database: { superuser: Db }
  clock: Clock
  ids: Ids
}

export async function draftState(
  { database: { superuser: db }, clock, ids }: World,
  workspace_id: string,
  label: string | null = null,
): Promise<string> {
  const { id: draft_id } = await db
    .selectFrom('template_drafts')
    .select('id')
    .where('workspace_id', '=', workspace_id)
    .executeTakeFirstOrThrow()
  const { cell_id } = await db.selectFrom('workspaces').select('cell_id').where('id', '=', workspace_id).executeTakeFirstOrThrow()
  if (cell_id === null) throw new Error('only a workspace with a cell is captured')
  const [id, operation_id, created_at] = [ids.next(), ids.next(), clock.now()]
  await db.insertInto('template_draft_states').values({ id, draft_id, operation_id, label, layers: null, created_at }).execute()
  const resources = JSON.stringify({ cpu_millis: 1000, memory_mib: 512, disk_gib: 10 })
  const made = { operation_id, kind: 'layer', label, epoch: 1, engine: '', size_bytes: 0, disk_bytes: 1, resources, created_at } as const
  await db
    .insertInto('checkpoints')
    .values({ id: ids.next(), workspace_id, cell_id, ...made, expires_at: null })
    .execute()
  return id
}

export async function allDraftStates(w: World, workspace_id: string): Promise<void> {
  for (let made = 0; made < LIMITS.template_build.draft_states_max; made++) await draftState(w, workspace_id)
}
