import { sql } from 'kysely'
import type { CheckpointInfo } from '../../../contract/internal/host-inventory.ts'
import type { Db } from '../../db/database.ts'
import type { MachineVolume, Resources } from '../../db/column-types.ts'
import { dropSuperseded } from './superseded-store.ts'

/** A transition with a higher fence supersedes this one. */
export interface Transition {
  cell_id: string
  workspace_id: string
  epoch: number
  fence: number
}

const NOT_HELD = sql<boolean>`not exists (select from workspace_holds h where h.workspace_id = workspaces.id)`

function ofMove({ workspace_id, epoch }: Transition) {
  return sql<boolean>`id = ${workspace_id} and observed_state = 'running' and deleted_at is null and ownership_epoch = ${epoch}`
}

/** @returns false if the workspace is not resident, is held, or a higher fence has superseded this transition. */
export async function beginHibernation(db: Db, move: Transition): Promise<boolean> {
  const { rows } = await sql`
    update workspaces set residency_fence = ${move.fence}
    where ${ofMove(move)} and residency = 'resident' and residency_fence < ${move.fence} and ${NOT_HELD}
    returning id`.execute(db)
  return rows.length === 1
}

export interface UnreferencedFiles {
  disk: string | null
  checkpoints: string[]
}

/**
 * After this commit the checkpoint alone is the state of the workspace, and its machine may only be stopped.
 * @returns null if another process or operation has superseded this transition: nothing has changed.
 */
export async function commitHibernation(
  db: Db,
  move: Transition,
  operation_id: string,
  info: CheckpointInfo,
  now: Date,
): Promise<UnreferencedFiles | null> {
  return db.transaction().execute(async (tx) => {
    const { rows } = await sql<{ disk: string | null }>`
      with before as (select id, disk from workspaces where id = ${move.workspace_id} for no key update)
      update workspaces set residency = 'hibernated', checkpoint_id = ${info.checkpoint_id}, disk = null
      from before
      where workspaces.id = before.id and workspaces.observed_state = 'running' and workspaces.deleted_at is null
        and workspaces.ownership_epoch = ${move.epoch} and workspaces.residency = 'resident'
        and workspaces.residency_fence = ${move.fence} and ${NOT_HELD}
      returning before.disk`.execute(tx)
    const [row] = rows
    if (row === undefined) return null
    const { checkpoint_id, engine, size_bytes, disk_bytes, resources } = info
    await tx
      .insertInto('checkpoints')
      .values({
        id: checkpoint_id,
        workspace_id: move.workspace_id,
        cell_id: move.cell_id,
        operation_id,
        kind: 'parked',
        label: null,
        expires_at: null,
        epoch: info.epoch,
        engine,
        size_bytes,
        disk_bytes,
        resources: JSON.stringify(resources),
        created_at: now,
      }) // prettier-ignore
      .execute()
    return { disk: row.disk, checkpoints: await dropSuperseded(tx, move.workspace_id, checkpoint_id) }
  })
}

/** Finds out whether the commit happened, when its answer was lost. */
export async function isHibernatedBy(db: Db, { workspace_id, fence }: Transition): Promise<boolean> {
  const row = await db.selectFrom('workspaces').select(['residency', 'residency_fence']).where('id', '=', workspace_id).executeTakeFirst()
  return row?.residency === 'hibernated' && row.residency_fence === fence
}

export interface HibernatedMachine {
  checkpoint_id: string
  resources: Resources
  volumes: MachineVolume[]
}

/** During start-up an operation holds the workspace with `gate` open. Its machine then serves calls, so a call may wake it. */
const NOT_SHUT = sql<boolean>`not exists (select from workspace_holds h where h.workspace_id = workspaces.id and h.gate <> 'open')`

/** @returns null if the workspace is not hibernated, is held, or a higher fence has superseded this transition. */
export async function beginWake(db: Db, move: Transition): Promise<HibernatedMachine | null> {
  const { rows } = await sql<Resources & Omit<HibernatedMachine, 'resources'>>`
    update workspaces set residency = 'restoring', residency_fence = ${move.fence}
    where ${ofMove(move)} and residency <> 'resident' and residency_fence < ${move.fence} and checkpoint_id is not null and ${NOT_SHUT}
    returning checkpoint_id, volumes, grant_cpu_millis as cpu_millis, grant_memory_mib as memory_mib, grant_disk_gib as disk_gib`.execute(
    db,
  )
  const [row] = rows
  if (row === undefined) return null
  const { checkpoint_id, volumes, ...resources } = row
  return { checkpoint_id, resources, volumes }
}

/**
 * A running operation has already commanded the host, so a machine restored before it is dead. A waiting operation lets a transition end.
 */
const IN_HAND = sql<boolean>`exists (
  select from workspace_holds h join operations o on o.id = h.operation_id
  where h.workspace_id = workspaces.id and h.gate <> 'open' and o.state = 'running')`

/**
 * @returns checkpoints whose files may be removed; null if another process or operation superseded this wake: the caller must discard the
 * machine.
 */
export async function commitWake(db: Db, move: Transition, disk: string): Promise<string[] | null> {
  return db.transaction().execute(async (tx) => {
    const { rows } = await sql`
      update workspaces set residency = 'resident', checkpoint_id = null, disk = ${disk}
      where ${ofMove(move)} and residency = 'restoring' and residency_fence = ${move.fence} and not ${IN_HAND}
      returning id`.execute(tx)
    if (rows.length === 0) return null
    const dropped = await tx
      .deleteFrom('checkpoints')
      .where('workspace_id', '=', move.workspace_id)
      .where('kind', '=', 'parked')
      .returning('id')
      .execute()
    return dropped.map(({ id }) => id)
  })
}

export async function undoWake(db: Db, { workspace_id, fence }: Transition): Promise<void> {
  await sql`
    update workspaces set residency = 'hibernated'
    where id = ${workspace_id} and residency = 'restoring' and residency_fence = ${fence}`.execute(db)
}

/**
 * Raises the fence, so that a late process cannot commit the ended transition.
 * @returns false if a higher fence has superseded this one.
 */
export async function endTransition(db: Db, workspace_id: string, fence: number): Promise<boolean> {
  const { rows } = await sql`
    update workspaces set residency_fence = ${fence}, residency = case residency when 'restoring' then 'hibernated' else residency end
    where id = ${workspace_id} and residency_fence < ${fence}
    returning id`.execute(db)
  return rows.length === 1
}
