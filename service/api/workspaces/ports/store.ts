import type { CredentialKind } from '../../../../contract/internal/ports.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { readerOf, type Reader } from '../../../db/reader.ts'
import type { Page } from '../../calls/pages.ts'

export interface PortRow {
  id: string
  workspace_id: string
  port: number
  requests: number
  received_bytes: number
  sent_bytes: number
  last_request_at: Date | null
  created_at: Date
  callback_created_at: Date | null
}

const TEXT = `select p.id, p.workspace_id, p.port, p.requests, p.received_bytes, p.sent_bytes, p.last_request_at, p.created_at,
    c.created_at as callback_created_at
  from workspace_ports p left join port_credentials c on c.port_id = p.id and c.kind = 'callback'`

export async function readPort(reads: Reader, workspace_id: string, port: number): Promise<PortRow | null> {
  const [row] = await reads.rows<PortRow>('ports.one', `${TEXT} where p.workspace_id = $1 and p.port = $2`, [workspace_id, port])
  return row ?? null
}

export function listPorts(reads: Reader, workspace_id: string, { below, limit }: Page): Promise<PortRow[]> {
  return reads.rows(
    below === null ? 'ports.of_workspace' : 'ports.of_workspace:b',
    `${TEXT} where p.workspace_id = $1 ${below === null ? '' : 'and uuid_send(p.id) < uuid_send($3::uuid)'} order by uuid_send(p.id) desc limit $2`,
    [workspace_id, limit + 1, ...(below === null ? [] : [below])],
  )
}

export async function countPorts(tx: ChangeTx, workspace_id: string): Promise<number> {
  const text = 'select count(*)::integer as count from workspace_ports where workspace_id = $1'
  const [row] = await readerOf(tx).rows<{ count: number }>('ports.count', text, [workspace_id])
  return row?.count ?? 0
}

export async function insertPort(tx: ChangeTx, row: Pick<PortRow, 'id' | 'workspace_id' | 'port' | 'created_at'>): Promise<void> {
  await tx.insertInto('workspace_ports').values(row).execute()
}

/** Also deletes the port's credentials: a new exposure has none. */
export async function deletePort(tx: ChangeTx, id: string): Promise<void> {
  await tx.deleteFrom('workspace_ports').where('id', '=', id).execute()
}

export async function countCredentials(tx: ChangeTx, port_id: string, kind: CredentialKind, now: Date): Promise<number> {
  const text = 'select count(*)::integer as count from port_credentials where port_id = $1 and kind = $2 and expires_at > $3'
  const [row] = await readerOf(tx).rows<{ count: number }>('port_credentials.count', text, [port_id, kind, now])
  return row?.count ?? 0
}

export interface NewPortCredential {
  id: string
  port_id: string
  kind: CredentialKind
  sha256: Buffer
  /** Only links have a path. */
  path: string | null
  created_at: Date
  /** null: valid until revoked. */
  expires_at: Date | null
}

export async function insertCredentials(tx: ChangeTx, rows: readonly NewPortCredential[]): Promise<void> {
  await tx
    .insertInto('port_credentials')
    .values([...rows])
    .execute()
}

export async function deleteCallback(tx: ChangeTx, port_id: string): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('port_credentials')
    .where('port_id', '=', port_id)
    .where('kind', '=', 'callback')
    .executeTakeFirst()
  return numDeletedRows > 0n
}
