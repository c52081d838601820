import { sql } from 'kysely'
import { LIMITS } from '../../../../contract/limits.ts'
import type { ToolTokenKeys } from '../../../../contract/schemas/tool-tokens.ts'
import { auditText, auditValues, type AuditEvent } from '../../../core/changes/store.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Db } from '../../../db/database.ts'
import { deleteOld } from '../../../db/delete-old.ts'
import type { Page } from '../../calls/pages.ts'

const HOUR_MS = 3600 * 1000

export interface AgentSessionRow {
  id: string
  workspace_id: string
  agent_label: string
  principal_type: 'api_key' | 'user'
  principal_id: string
  created_at: Date
  last_used_at: Date
}

export interface NewAgentSession {
  id: string
  workspace_id: string
  principal_type: 'api_key' | 'user'
  principal_id: string
  agent_label: string
  now: Date
}

/**
 * Counts in one statement. The budget is full again an hour after its first use.
 * @returns null if the budget is exhausted.
 */
export async function countToken(
  reads: Reader,
  session: NewAgentSession,
  event: AuditEvent | null,
): Promise<{ agent_session_id: string } | null> {
  const [row] = await reads.rows<{ id: string }>(
    'tool_tokens.count',
    `with budget as (
       insert into rate_buckets as b (name, tokens, updated_at) values ($1, $2::int - 1, $3)
       on conflict (name) do update set
         tokens = case when b.updated_at <= $4 then $2::int - 1 else b.tokens - 1 end,
         updated_at = case when b.updated_at <= $4 then $3 else b.updated_at end
       where b.tokens >= 1 or b.updated_at <= $4
       returning tokens
     ), session as (
     insert into agent_sessions (id, workspace_id, principal_type, principal_id, agent_label, created_at, last_used_at)
     select $5, $6, $7, $8, $9, $3, $3 from budget
     on conflict (workspace_id, principal_type, principal_id, agent_label) do update set last_used_at = excluded.last_used_at
     returning id
     ), recorded as (${auditText('session', 10)})
     select id from session`,
    [
      budgetName(session),
      LIMITS.credential.tool_tokens_per_hour,
      session.now,
      new Date(session.now.getTime() - HOUR_MS),
      session.id,
      session.workspace_id,
      session.principal_type,
      session.principal_id,
      session.agent_label,
      ...auditValues(event),
    ],
  )
  return row ? { agent_session_id: row.id } : null
}

export async function dropOldSessions(reads: Reader, workspace_id: string): Promise<void> {
  await reads.rows(
    'tool_tokens.drop_sessions',
    `delete from agent_sessions where id in (select id from agent_sessions where workspace_id = $1 order by last_used_at desc, id desc offset $2)`,
    [workspace_id, LIMITS.workspace.agent_sessions_max],
  )
}

/** A principal without a row has a full budget, so unused rows can be deleted. */
export async function forgetBudgets(db: Db, used_before: Date): Promise<number> {
  return deleteOld(db, 'rate_buckets', sql`updated_at < ${used_before}`)
}

export async function budgetSeconds(reads: Reader, session: NewAgentSession): Promise<number> {
  const [row] = await reads.rows<{ updated_at: Date }>('tool_tokens.budget', 'select updated_at from rate_buckets where name = $1', [
    budgetName(session),
  ])
  const left_ms = (row?.updated_at.getTime() ?? 0) + HOUR_MS - session.now.getTime()
  return Math.max(1, Math.ceil(left_ms / 1000))
}

function budgetName(session: NewAgentSession): string {
  return `tool_tokens:${session.principal_type}:${session.principal_id}`
}

export function listAgentSessions(reads: Reader, workspace_id: string, page: Page): Promise<AgentSessionRow[]> {
  const { below, limit } = page
  return reads.rows(
    below === null ? 'agent_sessions.of_workspace' : 'agent_sessions.of_workspace:b',
    `select id, workspace_id, agent_label, principal_type, principal_id, created_at, last_used_at from agent_sessions
     where workspace_id = $1 ${below === null ? '' : 'and uuid_send(id) < uuid_send($3::uuid)'} order by uuid_send(id) desc limit $2`,
    [workspace_id, limit + 1, ...(below === null ? [] : [below])],
  )
}

/** Includes recently retired keys, whose last tokens may still be valid. */
export async function listKeys(reads: Reader, now: Date): Promise<ToolTokenKeys['keys']> {
  const rows = await reads.rows<{ public_jwk: ToolTokenKeys['keys'][number] }>(
    'tool_tokens.keys',
    'select public_jwk from signing_keys where retired_at is null or retired_at > $1 order by created_at desc',
    [new Date(now.getTime() - (LIMITS.credential.tool_token_seconds + LIMITS.credential.signing_key_overlap_seconds) * 1000)],
  )
  return rows.map((row) => row.public_jwk)
}

export async function publishKey(db: Db, kid: string, public_jwk: object, now: Date): Promise<void> {
  await db
    .insertInto('signing_keys')
    .values({ kid, public_jwk: JSON.stringify(public_jwk), created_at: now, retired_at: null })
    .onConflict((conflict) => conflict.column('kid').doNothing())
    .execute()
}

/** A key that is not published yet is not retired. */
export async function isRetired(db: Db, kid: string): Promise<boolean> {
  const row = await db.selectFrom('signing_keys').select('retired_at').where('kid', '=', kid).executeTakeFirst()
  return row !== undefined && row.retired_at !== null
}
