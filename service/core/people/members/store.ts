import type { Insertable, Selectable } from 'kysely'
import type { Role } from '../../../../contract/access.ts'
import type { Database } from '../../../db/schema.ts'
import type { ChangeTx } from '../../changes/mutate.ts'

/** Every decision about members takes this lock, so that two owners cannot remove each other at the same time. */
export async function lockOrganization(tx: ChangeTx, id: string): Promise<Selectable<Database['organizations']> | undefined> {
  return tx.selectFrom('organizations').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
}

export async function roleIn(tx: ChangeTx, organization_id: string, person_id: string): Promise<Role | null> {
  const row = await tx
    .selectFrom('memberships')
    .select('role')
    .where('organization_id', '=', organization_id)
    .where('person_id', '=', person_id)
    .executeTakeFirst()
  return row?.role ?? null
}

export async function countOwners(tx: ChangeTx, organization_id: string): Promise<number> {
  const { count } = await tx
    .selectFrom('memberships')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('organization_id', '=', organization_id)
    .where('role', '=', 'owner')
    .executeTakeFirstOrThrow()
  return count
}

/** Locks the person before it counts, so that concurrent creations cannot exceed the limit. */
export async function countOwned(tx: ChangeTx, person_id: string): Promise<number> {
  await tx.selectFrom('people').select('id').where('id', '=', person_id).forUpdate().execute()
  const { count } = await tx
    .selectFrom('memberships')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('person_id', '=', person_id)
    .where('role', '=', 'owner')
    .executeTakeFirstOrThrow()
  return count
}

/** @returns false if the person is a member already. */
export async function insertMembership(tx: ChangeTx, membership: Insertable<Database['memberships']>): Promise<boolean> {
  const { numInsertedOrUpdatedRows = 0n } = await tx
    .insertInto('memberships')
    .values(membership)
    .onConflict((conflict) => conflict.columns(['organization_id', 'person_id']).doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows > 0n
}

export async function writeRole(tx: ChangeTx, organization_id: string, person_id: string, role: Role): Promise<void> {
  await tx
    .updateTable('memberships')
    .set({ role })
    .where('organization_id', '=', organization_id)
    .where('person_id', '=', person_id)
    .execute()
}

export async function deleteMembership(tx: ChangeTx, organization_id: string, person_id: string): Promise<void> {
  await tx.deleteFrom('memberships').where('organization_id', '=', organization_id).where('person_id', '=', person_id).execute()
}
