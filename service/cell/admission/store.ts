import type { AuditEvent } from '../../core/changes/store.ts'
import type { Db } from '../../db/database.ts'

export interface KeyStanding {
  revoked_at: Date | null
  expires_at: Date | null
  tool_permissions: readonly string[]
  tools_changed_at: Date | null
}

export async function readKeyStanding(db: Db, id: string): Promise<KeyStanding | null> {
  const row = await db
    .selectFrom('api_keys')
    .select(['revoked_at', 'expires_at', 'tool_permissions', 'tools_changed_at'])
    .where('id', '=', id)
    .executeTakeFirst()
  return row ?? null
}

/** Includes retired keys, because the last tokens of a key are valid after it has stopped signing. */
export function readSigningKeys(db: Db, retired_since: Date): Promise<{ kid: string; public_jwk: object }[]> {
  return db
    .selectFrom('signing_keys')
    .select(['kid', 'public_jwk'])
    .where((e) => e.or([e('retired_at', 'is', null), e('retired_at', '>', retired_since)]))
    .execute()
}

export interface Membership {
  organization_id: string
  role: 'owner' | 'admin' | 'member' | 'billing'
}

export function readMemberships(db: Db, person_id: string): Promise<Membership[]> {
  return db.selectFrom('memberships').select(['organization_id', 'role']).where('person_id', '=', person_id).execute()
}

/** Skips existing records: an earlier flush may have written them although its answer was lost. */
export async function insertToolUses(db: Db, events: AuditEvent[]): Promise<void> {
  await db
    .insertInto('audit_events')
    .values(events)
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

export function readEndedSessions(db: Db, person_id: string, ended_since: Date): Promise<{ id: string }[]> {
  return db.selectFrom('person_sessions').select('id').where('person_id', '=', person_id).where('revoked_at', '>', ended_since).execute()
}
