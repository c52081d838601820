import { sql } from 'kysely'
import type { AttachmentMode, AttachmentState, VolumeState } from '../../../../contract/states/volume.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { cancelOperation, lockOperation } from '../../../core/workspaces/operations/store.ts'
import type { VolumePlan } from '../../../core/workspaces/volumes/plan.ts'
import { readerOf, type Reader, type Tx } from '../../../db/reader.ts'
import type { Page } from '../../calls/pages.ts'

export interface VolumeRow {
  id: string
  organization_id: string
  project_id: string
  cell_id: string | null
  name: string
  quota_gib: number
  org_shared: boolean
  state: VolumeState
  created_at: Date
  updated_at: Date
  deleted_at: Date | null
  attachments: AttachedRow[]
}

/** Times are text, because the rows are read as JSON. */
export interface AttachedRow {
  workspace_id: string
  project_id: string
  mount_path: string
  mode: AttachmentMode
  state: AttachmentState
  created_at: string
  updated_at: string
}

const COLUMNS = `v.id, v.organization_id, v.project_id, v.cell_id, v.name, v.quota_gib, v.org_shared, v.state, v.created_at, v.updated_at, v.deleted_at,
  (select coalesce(jsonb_agg(jsonb_build_object('workspace_id', a.workspace_id, 'project_id', w.project_id, 'mount_path', a.mount_path, 'mode', a.mode,
     'state', a.state, 'created_at', a.created_at, 'updated_at', a.updated_at) order by a.id), '[]')
   from volume_attachments a join workspaces w on w.id = a.workspace_id where a.volume_id = v.id) as attachments`

export async function readVolume(reads: Reader, id: string): Promise<VolumeRow | null> {
  const [row] = await reads.rows<VolumeRow>('volumes.by_id', `select ${COLUMNS} from volumes v where v.id = $1`, [id])
  return row ?? null
}

/** The lock serializes attaching and deleting. */
export async function lockVolume(tx: Tx, id: string): Promise<VolumeRow | null> {
  await sql`select 1 from volumes where id = ${id} for no key update`.execute(tx)
  return readVolume(readerOf(tx), id)
}

export interface ListedVolumes {
  project_id: string
  organization_id: string
  include_org_shared: boolean
  include_deleted: boolean
}

export function listVolumes(reads: Reader, of: ListedVolumes, { below, limit }: Page): Promise<VolumeRow[]> {
  const { project_id, organization_id, include_org_shared, include_deleted } = of
  const where = [
    include_org_shared ? '(v.project_id = $1 or v.organization_id = $2 and v.org_shared)' : 'v.project_id = $1 and v.organization_id = $2',
    ...(include_deleted ? [] : ['v.deleted_at is null']),
    ...(below === null ? [] : ['uuid_send(v.id) < uuid_send($4::uuid)']),
  ]
  const name = `volumes.list:${[include_org_shared, include_deleted, below !== null].map(Number).join('')}`
  const text = `select ${COLUMNS} from volumes v where ${where.join(' and ')} order by uuid_send(v.id) desc limit $3`
  return reads.rows(name, text, [project_id, organization_id, limit + 1, ...(below === null ? [] : [below])])
}

/** Locks the count. Otherwise concurrent creations could exceed the limit. */
export async function lockVolumesOf(tx: Tx, organization_id: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`volumes:${organization_id}`}, 0))`.execute(tx)
}

export async function countLiveVolumes(reads: Reader, organization_id: string): Promise<number> {
  const text = 'select count(*)::int as count from volumes where organization_id = $1 and deleted_at is null'
  const [row] = await reads.rows<{ count: number }>('volumes.live', text, [organization_id])
  return row?.count ?? 0
}

export async function hasVolumeNamed(reads: Reader, project_id: string, name: string): Promise<boolean> {
  const text = 'select 1 from volumes where project_id = $1 and name = $2 and deleted_at is null'
  return (await reads.rows('volumes.named', text, [project_id, name])).length > 0
}

export async function readVolumePlan(reads: Reader, organization_id: string): Promise<VolumePlan> {
  const [row] = await reads.rows<VolumePlan>(
    'volumes.plan',
    `select p.slug, p.shared_volumes_max, p.shared_volume_gib_max, p.volume_attachments_per_workspace, p.missing_volume_limits, p.refuses_starts,
       coalesce(g.refuses_starts, g.payment_refuses_starts) as organization_refuses_starts, coalesce(g.grace_until, g.payment_grace_until) as grace_until
     from organizations g join plans p on p.id = g.plan_id where g.id = $1`,
    [organization_id],
  )
  if (!row) throw new Error(`organization ${organization_id} has no plan`)
  return row
}

export interface NewVolume extends Pick<
  VolumeRow,
  'id' | 'organization_id' | 'project_id' | 'cell_id' | 'name' | 'quota_gib' | 'org_shared'
> {
  now: Date
}

export async function insertVolume(tx: ChangeTx, { now, ...columns }: NewVolume): Promise<void> {
  await tx
    .insertInto('volumes')
    .values({ ...columns, state: 'creating', created_at: now, updated_at: now, deleted_at: null })
    .execute()
}

export async function markDeleting(tx: ChangeTx, id: string, now: Date): Promise<void> {
  await tx.updateTable('volumes').set({ state: 'deleting', updated_at: now, deleted_at: now }).where('id', '=', id).execute()
  await tx
    .updateTable('volume_attachments')
    .set({ state: 'detaching', updated_at: now })
    .where('volume_id', '=', id)
    .where('state', '=', 'attached')
    .execute()
}

/**
 * A creation on a lost host would keep the name forever. Call this before locking the volume: an ending operation locks its own row first.
 */
export async function cancelCreation(tx: ChangeTx, volume_id: string, now: Date): Promise<void> {
  const creation = await lastVolumeOperation(readerOf(tx), volume_id, 'volume_create')
  if (creation === null) return
  await lockOperation(tx, creation)
  await cancelOperation(tx, creation, now, 'The volume was deleted')
}

export async function lastVolumeOperation(
  reads: Reader,
  volume_id: string,
  kind: 'volume_create' | 'volume_delete',
): Promise<string | null> {
  const [row] = await reads.rows<{ id: string }>(
    'volumes.operation',
    `select id from operations where subject_kind = 'volume' and subject_id = $1 and kind = $2 order by uuid_send(id) desc limit 1`,
    [volume_id, kind],
  )
  return row?.id ?? null
}
