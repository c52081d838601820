import { sql } from 'kysely'
import type { Db } from '../../../db/database.ts'
import type { MachineVolume } from '../../../db/column-types.ts'
import type { Tx } from '../../../db/reader.ts'

/** @returns undefined if the attachment was deleted with its volume */
export async function readOwnAttachment(db: Db, operation_id: string): Promise<MachineVolume | undefined> {
  return db
    .selectFrom('volume_attachments')
    .select(['volume_id', 'place', 'mount_path', sql<boolean>`mode = 'read_only'`.as('read_only')])
    .where('operation_id', '=', operation_id)
    .executeTakeFirst()
}

export async function isAvailable(db: Db, volume_id: string): Promise<boolean> {
  const row = await db.selectFrom('volumes').select('state').where('id', '=', volume_id).executeTakeFirst()
  return row?.state === 'available'
}

export async function markAttached(tx: Tx, operation_id: string, now: Date): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('volume_attachments')
    .set({ state: 'attached', operation_id: null, updated_at: now })
    .where('operation_id', '=', operation_id)
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

export async function dropAttachment(tx: Tx, operation_id: string): Promise<void> {
  await tx.deleteFrom('volume_attachments').where('operation_id', '=', operation_id).execute()
}

export interface OwnVolume {
  id: string
  cell_id: string | null
  quota_gib: number
}

export async function readOwnVolume(db: Db, id: string): Promise<OwnVolume | undefined> {
  return db.selectFrom('volumes').select(['id', 'cell_id', 'quota_gib']).where('id', '=', id).executeTakeFirst()
}

export async function readFates(db: Db, ids: string[]): Promise<Map<string, 'kept' | 'deleted'>> {
  const rows = await db.selectFrom('volumes').select(['id', 'state']).where('id', 'in', ids).execute()
  return new Map(rows.map(({ id, state }) => [id, state === 'deleted' ? 'deleted' : 'kept']))
}

/** Binds a new volume to this cell, which stores its data from now on. */
export async function placeVolume(db: Db, id: string, cell_id: string): Promise<void> {
  await db.updateTable('volumes').set({ cell_id }).where('id', '=', id).where('cell_id', 'is', null).execute()
}

export async function moveVolume(
  tx: Tx,
  id: string,
  from: 'creating' | 'deleting',
  to: 'available' | 'failed' | 'deleted',
  now: Date,
): Promise<void> {
  await tx.updateTable('volumes').set({ state: to, updated_at: now }).where('id', '=', id).where('state', '=', from).execute()
}

/** Must run before the volume's row is written: a trigger writes the rows of workspaces, and attaching also locks those first. */
export async function dropAttachmentsOf(tx: Tx, volume_id: string): Promise<void> {
  await tx.deleteFrom('volume_attachments').where('volume_id', '=', volume_id).execute()
}

const TOMBSTONES = 200

/** Deletes the rows of deleted volumes. Their usage remains in the ledger. */
export async function dropDeletedVolumes(db: Db, deleted_before: Date): Promise<number> {
  const { rows } = await sql`
    with gone as (
      delete from volumes where id = any(array(
        select v.id from volumes v where v.state = 'deleted' and v.deleted_at < ${deleted_before}
          and not exists (select from volume_attachments a where a.volume_id = v.id) limit ${TOMBSTONES}))
      returning id
    ), operations as (
      delete from operations o using gone where o.subject_kind = 'volume' and o.subject_id = gone.id and o.completed_at is not null
    )
    select id from gone`.execute(db)
  return rows.length
}

/**
 * Settles attachments of attempts that lost their workspace: removes unfinished attaches, and undoes unfinished detaches. The next start
 * of the machine follows the rows.
 */
export async function settleAttachments(db: Db, cell_id: string, now: Date): Promise<number> {
  const { rows } = await sql<{ id: string; workspace_id: string }>`
    select a.id, a.workspace_id from volume_attachments a join operations o on o.id = a.operation_id join workspaces w on w.id = a.workspace_id
    where o.completed_at is not null and a.state <> 'attached' and w.cell_id = ${cell_id}`.execute(db)
  for (const { id, workspace_id } of rows) {
    await db.transaction().execute(async (tx) => {
      // Locks the workspace's row first, as attaching does (see dropAttachmentsOf).
      await sql`select 1 from workspaces where id = ${workspace_id} for no key update`.execute(tx)
      const own = sql`id = ${id} and exists (select from operations o where o.id = operation_id and o.completed_at is not null)`
      await sql`delete from volume_attachments where state = 'attaching' and ${own}`.execute(tx)
      await sql`update volume_attachments set state = 'attached', operation_id = null, updated_at = ${now} where state = 'detaching' and ${own}`.execute(
        tx,
      )
    })
  }
  return rows.length
}
