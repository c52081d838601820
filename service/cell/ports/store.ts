import { sql } from 'kysely'
import type { CredentialKind } from '../../core/workspaces/ports/credentials.ts'
import type { Db } from '../../db/database.ts'
import { oneOf } from '../../db/one-of.ts'
import { addPortBytes } from '../metering/port-store.ts'

export interface FoundCredential {
  id: string
  kind: CredentialKind
  port_id: string
  port: number
  workspace_id: string
  organization_id: string
  project_id: string
  path: string | null
  expires_at: Date | null
}

export async function readCredentials(db: Db, digests: Buffer[]): Promise<(FoundCredential & { sha256: Buffer })[]> {
  return db
    .selectFrom('port_credentials as c')
    .innerJoin('workspace_ports as p', 'p.id', 'c.port_id')
    .innerJoin('workspaces as w', 'w.id', 'p.workspace_id')
    .select([
      'c.id',
      'c.kind',
      'c.port_id',
      'p.port',
      'p.workspace_id',
      'w.organization_id',
      'w.project_id',
      'c.path',
      'c.expires_at',
      'c.sha256',
    ])
    .where(sql<boolean>`c.sha256 = any(${digests}::bytea[])`)
    .execute()
}

export async function readRemaining(
  db: Db,
  credential_ids: string[],
  port_ids: string[],
): Promise<{ credentials: Set<string>; ports: Set<string> }> {
  const credentials = await db.selectFrom('port_credentials').select('id').where('id', '=', oneOf(credential_ids)).execute()
  const ports = await db.selectFrom('workspace_ports').select('id').where('id', '=', oneOf(port_ids)).execute()
  return { credentials: new Set(credentials.map(({ id }) => id)), ports: new Set(ports.map(({ id }) => id)) }
}

export interface PortUse {
  port_id: string
  workspace_id: string
  requests: number
  received_bytes: number
  sent_bytes: number
  last_request_at: Date
}

export async function addUse(db: Db, uses: readonly PortUse[], now: Date): Promise<void> {
  const column = (pick: (use: PortUse) => number) => uses.map(pick)
  await db.transaction().execute(async (tx) => {
    await sql`
      update workspace_ports p set
        requests = p.requests + v.requests,
        received_bytes = p.received_bytes + v.received_bytes,
        sent_bytes = p.sent_bytes + v.sent_bytes,
        last_request_at = greatest(p.last_request_at, v.last_request_at)
      from unnest(
        ${uses.map(({ port_id }) => port_id)}::uuid[],
        ${column(({ requests }) => requests)}::bigint[],
        ${column(({ received_bytes }) => received_bytes)}::bigint[],
        ${column(({ sent_bytes }) => sent_bytes)}::bigint[],
        ${uses.map(({ last_request_at }) => last_request_at.toISOString())}::timestamptz[]
      ) as v (id, requests, received_bytes, sent_bytes, last_request_at)
      where p.id = v.id`.execute(tx)
    await addPortBytes(
      tx,
      uses.map(({ workspace_id, received_bytes, sent_bytes }) => ({ workspace_id, received_bytes, sent_bytes })),
      now,
    )
  })
}

export const EXPIRED_BATCH = 1000

export async function dropExpiredCredentials(db: Db, expired_before: Date): Promise<number> {
  const { rows } = await sql`
    delete from port_credentials where id = any(array(
      select id from port_credentials where expires_at < ${expired_before} limit ${EXPIRED_BATCH}
    )) returning id`.execute(db)
  return rows.length
}
