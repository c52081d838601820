import type { Role } from '../../../../contract/access.ts'
import type { Tool } from '../../../../contract/route.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Db } from '../../../db/database.ts'
import type { Page } from '../../calls/pages.ts'

export interface ApiKeyRow {
  id: string
  key_id: string
  organization_id: string
  project_id: string
  tool_permissions: Tool[]
  expires_at: Date | null
  /** null: no use recorded. */
  last_used_at: Date | null
}

/** Searches by id and digest together: unknown ids then need the same time as known ids. */
export async function findApiKey(reads: Reader, key_id: string, secret_sha256: Buffer, now: Date): Promise<ApiKeyRow | null> {
  const [row] = await reads.rows<ApiKeyRow>(
    'auth.api_key',
    `select id, key_id, organization_id, project_id, tool_permissions, expires_at,
       (select last_used_at from api_key_uses where api_key_id = api_keys.id) as last_used_at
     from api_keys
     where key_id = $1 and secret_sha256 = $2 and revoked_at is null and (expires_at is null or expires_at > $3)`,
    [key_id, secret_sha256, now],
  )
  return row ?? null
}

export interface PersonSessionRow {
  session_id: string
  last_used_at: Date
  stepped_up_at: Date | null
  id: string
  email: string
  email_verified: boolean
  mfa_pending: boolean
  memberships: { organization_id: string; role: Role }[]
}

/** A session is valid if used within 30 days and at most 90 days old (App, "Authentication" 2). */
export async function findPersonSession(
  reads: Reader,
  token_sha256: Buffer,
  now: Date,
  idle_since: Date,
  made_since: Date,
): Promise<PersonSessionRow | null> {
  const [row] = await reads.rows<PersonSessionRow>(
    'auth.person_session',
    `select s.id as session_id, s.last_used_at, s.stepped_up_at, s.mfa_pending, p.id, p.email, p.email_verified,
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

export interface AccountRow {
  id: string
  email: string
  email_verified: boolean
  mfa_enabled: boolean
  password_hash: string | null
}

const ACCOUNT = `select p.id, p.email, p.email_verified, p.mfa_enabled, c.password_hash
  from people p left join person_credentials c on c.person_id = p.id`

export async function findAccount(reads: Reader, email: string): Promise<AccountRow | null> {
  const [row] = await reads.rows<AccountRow>('auth.account_by_email', `${ACCOUNT} where lower(p.email) = $1`, [email])
  return row ?? null
}

export async function readAccount(reads: Reader, id: string): Promise<AccountRow | null> {
  const [row] = await reads.rows<AccountRow>('auth.account', `${ACCOUNT} where p.id = $1`, [id])
  return row ?? null
}

export interface SessionRow {
  id: string
  device: string | null
  address: string | null
  created_at: Date
  last_used_at: Date
  expires_at: Date
  mfa_pending: boolean
  stepped_up_at: Date | null
}

const SESSION = 'select id, device, address, created_at, last_used_at, expires_at, mfa_pending, stepped_up_at from person_sessions'

export async function readSession(reads: Reader, id: string): Promise<SessionRow | null> {
  const [row] = await reads.rows<SessionRow>('auth.session', `${SESSION} where id = $1`, [id])
  return row ?? null
}

export function listSessions(
  reads: Reader,
  person_id: string,
  { now, idle_since, made_since }: { now: Date; idle_since: Date; made_since: Date },
  { below, limit }: Page,
): Promise<SessionRow[]> {
  const first = below === null
  return reads.rows(
    first ? 'auth.sessions' : 'auth.sessions:b',
    `${SESSION} where person_id = $1 and revoked_at is null and expires_at > $2 and last_used_at > $3 and created_at > $4
     ${first ? '' : 'and uuid_send(id) < uuid_send($6::uuid)'} order by uuid_send(id) desc limit $5`,
    [person_id, now, idle_since, made_since, limit + 1, ...(first ? [] : [below])],
  )
}

export async function countRecoveryCodes(reads: Reader, person_id: string): Promise<number> {
  const text = 'select count(*)::int as count from recovery_codes where person_id = $1 and used_at is null'
  const [row] = await reads.rows<{ count: number }>('auth.recovery_codes', text, [person_id])
  return row?.count ?? 0
}

export async function isInvited(reads: Reader, token_sha256: Buffer, email: string, now: Date): Promise<boolean> {
  const rows = await reads.rows(
    'auth.invited',
    `select 1 from invitations where token_sha256 = $1 and email = $2 and accepted_at is null and revoked_at is null and expires_at > $3`,
    [token_sha256, email, now],
  )
  return rows.length > 0
}

/** Also returns the person of an expired token: only `useEmailToken` checks the expiry. */
export async function personOfToken(reads: Reader, token_sha256: Buffer): Promise<string | null> {
  const text = 'select person_id from email_tokens where token_sha256 = $1'
  const [row] = await reads.rows<{ person_id: string }>('auth.person_of_token', text, [token_sha256])
  return row?.person_id ?? null
}
