import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../../../db/database.ts'
import type { Database } from '../../../db/schema.ts'
import type { ChangeTx } from '../../changes/mutate.ts'
import type { Principal } from '../../../http/call.ts'

export function findOrganization(db: Db, slug: string): Promise<Selectable<Database['organizations']> | undefined> {
  return db.selectFrom('organizations').selectAll().where('slug', '=', slug).executeTakeFirst()
}

export function listOrganizations(db: Db) {
  return db
    .selectFrom('organizations')
    .innerJoin('plans', 'plans.id', 'organizations.plan_id')
    .select([
      'organizations.id',
      'organizations.slug',
      'organizations.name',
      'plans.slug as plan',
      'organizations.allowance_exhausted',
      'organizations.created_at',
    ])
    .orderBy('organizations.slug')
    .execute()
}

export async function insertOrganization(tx: ChangeTx, organization: Insertable<Database['organizations']>): Promise<void> {
  await tx.insertInto('organizations').values(organization).execute()
}

export type OrganizationChange = Partial<
  Pick<Insertable<Database['organizations']>, 'name' | 'plan_id' | 'refuses_starts' | 'grace_until' | 'allowance_exhausted' | 'allowance'>
>

export async function updateOrganization(tx: ChangeTx, id: string, change: OrganizationChange): Promise<void> {
  await tx.updateTable('organizations').set(change).where('id', '=', id).execute()
}

export function findProject(db: Db, organization_id: string, slug: string): Promise<Selectable<Database['projects']> | undefined> {
  return db.selectFrom('projects').selectAll().where('organization_id', '=', organization_id).where('slug', '=', slug).executeTakeFirst()
}

export function listProjects(db: Db, organization_id: string) {
  return db
    .selectFrom('projects')
    .select(['id', 'slug', 'name', 'created_at'])
    .where('organization_id', '=', organization_id)
    .orderBy('slug')
    .execute()
}

export async function insertProject(tx: ChangeTx, project: Insertable<Database['projects']>): Promise<void> {
  await tx.insertInto('projects').values(project).execute()
}

export function lockProject(tx: ChangeTx, id: string): Promise<Selectable<Database['projects']> | undefined> {
  return tx.selectFrom('projects').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
}

export async function renameProject(tx: ChangeTx, id: string, name: string): Promise<void> {
  await tx.updateTable('projects').set({ name }).where('id', '=', id).execute()
}

export async function countProjects(tx: ChangeTx, organization_id: string): Promise<number> {
  const { count } = await tx
    .selectFrom('projects')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('organization_id', '=', organization_id)
    .executeTakeFirstOrThrow()
  return count
}
export function organizationIds(who: Principal): string[] {
  return who.type === 'user' ? who.memberships.map((membership) => membership.organization_id) : [who.organization_id]
}
