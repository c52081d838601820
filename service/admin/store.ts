import type { Insertable, Selectable, Transaction } from 'kysely'
import type { Db } from '../db/database.ts'
import type { Database } from '../db/schema.ts'

// What operators create and change: every statement runs as the owner of the tables, never in a service process.

type Executor = Db | Transaction<Database>
export type Plan = Selectable<Database['plans']>
export type PlanLimits = Partial<Pick<Plan, 'concurrent_workspaces' | 'cpu_millis' | 'memory_mib' | 'disk_gib' | 'refuses_starts'>>

export function findPlan(db: Executor, slug: string): Promise<Plan | undefined> {
  return db.selectFrom('plans').selectAll().where('slug', '=', slug).executeTakeFirst()
}

export function listPlans(db: Db): Promise<Plan[]> {
  return db.selectFrom('plans').selectAll().orderBy('slug').execute()
}

export async function insertPlan(db: Executor, plan: Insertable<Database['plans']>): Promise<void> {
  await db.insertInto('plans').values(plan).execute()
}

export async function updatePlan(db: Db, id: string, limits: PlanLimits): Promise<void> {
  if (Object.keys(limits).length > 0) await db.updateTable('plans').set(limits).where('id', '=', id).execute()
}

export function findOrganization(db: Executor, slug: string): Promise<Selectable<Database['organizations']> | undefined> {
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

export async function insertOrganization(db: Executor, organization: Insertable<Database['organizations']>): Promise<void> {
  await db.insertInto('organizations').values(organization).execute()
}

export async function updateOrganization(db: Db, id: string, change: { plan_id: string }): Promise<void> {
  await db.updateTable('organizations').set(change).where('id', '=', id).execute()
}

export function findProject(db: Executor, organization_id: string, slug: string): Promise<Selectable<Database['projects']> | undefined> {
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

export async function insertProject(db: Executor, project: Insertable<Database['projects']>): Promise<void> {
  await db.insertInto('projects').values(project).execute()
}

export async function insertApiKey(db: Executor, key: Insertable<Database['api_keys']>): Promise<void> {
  await db.insertInto('api_keys').values(key).execute()
}

export function findApiKey(db: Executor, key_id: string): Promise<Selectable<Database['api_keys']> | undefined> {
  return db.selectFrom('api_keys').selectAll().where('key_id', '=', key_id).executeTakeFirst()
}

export async function anyApiKey(db: Executor): Promise<boolean> {
  return (await db.selectFrom('api_keys').select('id').limit(1).executeTakeFirst()) !== undefined
}

export function listApiKeys(db: Db) {
  return db
    .selectFrom('api_keys')
    .innerJoin('organizations', 'organizations.id', 'api_keys.organization_id')
    .innerJoin('projects', 'projects.id', 'api_keys.project_id')
    .select([
      'api_keys.key_id',
      'api_keys.name',
      'organizations.slug as organization',
      'projects.slug as project',
      'api_keys.tool_permissions',
      'api_keys.created_at',
      'api_keys.expires_at',
      'api_keys.revoked_at',
    ])
    .orderBy('api_keys.id')
    .execute()
}

/** @returns whether the key was in force until now. */
export async function revokeApiKey(db: Db, key_id: string, now: Date): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('api_keys')
    .set({ revoked_at: now })
    .where('key_id', '=', key_id)
    .where('revoked_at', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

export async function setApiKeyTools(
  db: Db,
  key_id: string,
  change: { tool_permissions: string[]; tools_changed_at?: Date },
): Promise<void> {
  await db.updateTable('api_keys').set(change).where('key_id', '=', key_id).execute()
}

export function findPerson(db: Db, email: string): Promise<Selectable<Database['people']> | undefined> {
  return db.selectFrom('people').selectAll().where('email', '=', email).executeTakeFirst()
}

/** A person is one over all organizations: the second membership finds the first one's row. */
export async function insertPersonWithRole(
  db: Db,
  person: Insertable<Database['people']>,
  membership: Omit<Insertable<Database['memberships']>, 'person_id'>,
): Promise<string> {
  return db.transaction().execute(async (tx) => {
    await tx
      .insertInto('people')
      .values(person)
      .onConflict((conflict) => conflict.column('email').doNothing())
      .execute()
    const { id } = await tx.selectFrom('people').select('id').where('email', '=', person.email).executeTakeFirstOrThrow()
    await tx
      .insertInto('memberships')
      .values({ ...membership, person_id: id })
      .onConflict((conflict) => conflict.columns(['organization_id', 'person_id']).doUpdateSet({ role: membership.role }))
      .execute()
    return id
  })
}

export async function insertPersonSession(db: Db, session: Insertable<Database['person_sessions']>): Promise<void> {
  await db.insertInto('person_sessions').values(session).execute()
}

/** @returns the session's id, person and times; never its token. */
export function listPersonSessions(db: Db, person_id: string) {
  return db
    .selectFrom('person_sessions')
    .select(['id', 'created_at', 'last_used_at', 'expires_at', 'revoked_at'])
    .where('person_id', '=', person_id)
    .orderBy('id', 'desc')
    .execute()
}

/** All that are in force of a person, or only the named one. @returns how many ended. */
export async function revokePersonSessions(db: Db, person_id: string, only: string | undefined, now: Date): Promise<number> {
  const { numUpdatedRows } = await db
    .updateTable('person_sessions')
    .set({ revoked_at: now })
    .where('person_id', '=', person_id)
    .where('revoked_at', 'is', null)
    .$if(only !== undefined, (query) => query.where('id', '=', only ?? ''))
    .executeTakeFirst()
  return Number(numUpdatedRows)
}

/** @returns the kids of those that signed until now. */
export async function retireSigningKeys(db: Db, now: Date): Promise<string[]> {
  const rows = await db.updateTable('signing_keys').set({ retired_at: now }).where('retired_at', 'is', null).returning('kid').execute()
  return rows.map(({ kid }) => kid)
}

/** @returns whether there is such a workspace. */
export async function revokeWorkspaceTokens(db: Db, id: string, now: Date): Promise<boolean> {
  const { numUpdatedRows } = await db.updateTable('workspaces').set({ tokens_revoked_before: now }).where('id', '=', id).executeTakeFirst()
  return numUpdatedRows === 1n
}
