import type { Role } from '../../../contract/access.ts'
import type { Tool } from '../../../contract/route.ts'
import type { Reader } from '../../db/reader.ts'
import type { Db } from '../../db/database.ts'

export interface ApiKeyRow {
  id: string
  key_id: string
  organization_id: string
  project_id: string
  tool_permissions: Tool[]
  expires_at: Date | null
}

/** Asked by id and digest at once, so that a known id and an unknown one take the same path. */
export async function findApiKey(reads: Reader, key_id: string, secret_sha256: Buffer, now: Date): Promise<ApiKeyRow | null> {
  const [row] = await reads.rows<ApiKeyRow>(
    'auth.api_key',
    `select id, key_id, organization_id, project_id, tool_permissions, expires_at from api_keys
     where key_id = $1 and secret_sha256 = $2 and revoked_at is null and (expires_at is null or expires_at > $3)`,
    [key_id, secret_sha256, now],
  )
  return row ?? null
}

export interface PersonSessionRow {
  session_id: string
  last_used_at: Date
  id: string
  email: string
  email_verified: boolean
  mfa_pending: boolean
  memberships: { organization_id: string; role: Role }[]
}

/** A session that is in force: not revoked, used within 30 days, at most 90 days old (App, "Authentication" 2). */
export async function findPersonSession(
  reads: Reader,
  token_sha256: Buffer,
  now: Date,
  idle_since: Date,
  made_since: Date,
): Promise<PersonSessionRow | null> {
  const [row] = await reads.rows<PersonSessionRow>(
    'auth.person_session',
    `select s.id as session_id, s.last_used_at, s.mfa_pending, p.id, p.email, p.email_verified,
       coalesce((select jsonb_agg(jsonb_build_object('organization_id', m.organization_id, 'role', m.role))
         from memberships m where m.person_id = p.id), '[]') as memberships
     from person_sessions s join people p on p.id = s.person_id
     where s.token_sha256 = $1 and s.revoked_at is null and s.expires_at > $2 and s.last_used_at > $3 and s.created_at > $4`,
    [token_sha256, now, idle_since, made_since],
  )
  return row ?? null
}

export async function touchPersonSession(db: Db, session_id: string, now: Date): Promise<void> {
  await db.updateTable('person_sessions').set({ last_used_at: now }).where('id', '=', session_id).execute()
}
