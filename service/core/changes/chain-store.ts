import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { Tx } from '../../db/reader.ts'
import { CHAIN_START, INSTALLATION_CHAIN, linkAfter, type EventRow, type Link } from './chain.ts'

const ROWS_MAX = 1000
const CHAINS_MAX = 200

/**
 * Runs after the commit, so that changes do not wait for each other.
 * Several processes may run it, because a row lock gives each chain to one process at a time.
 */
export async function linkEvents(db: Db, stopped: () => boolean = () => false): Promise<number> {
  let linked = 0
  for (;;) {
    let turn = 0
    for (const chain_id of await waitingChains(db)) {
      if (stopped()) return linked
      turn += await db.transaction().execute((tx) => linkChain(tx, chain_id))
    }
    linked += turn
    if (turn === 0) return linked
  }
}

async function waitingChains(db: Db): Promise<string[]> {
  // A skip scan over the index: one probe for each organization with unlinked records.
  const { rows } = await sql<{ chain_id: string | null }>`with recursive o as (
    (select organization_id, 1 as n from audit_events where sequence is null and organization_id is not null order by organization_id limit 1)
    union all
    select (select organization_id from audit_events where sequence is null and organization_id > o.organization_id order by organization_id limit 1), n + 1
    from o where o.organization_id is not null and n < ${CHAINS_MAX})
    select organization_id as chain_id from o where organization_id is not null
    union all (select null from audit_events where sequence is null and organization_id is null limit 1)`.execute(db)
  return rows.map(({ chain_id }) => chain_id ?? INSTALLATION_CHAIN)
}

async function linkChain(tx: Tx, chain_id: string): Promise<number> {
  const end = await lockChain(tx, chain_id)
  if (end === null) return 0
  const rows = await tx
    .selectFrom('audit_events')
    .selectAll()
    .where(ofChain(chain_id))
    .where('sequence', 'is', null)
    .orderBy('id')
    .limit(ROWS_MAX)
    .execute()
  if (rows.length === 0) return 0
  const links: (Link & { id: string })[] = []
  let last: Link = end
  for (const row of rows) links.push({ id: row.id, ...(last = linkAfter(last, row)) })
  await sql`update audit_events e set sequence = l.sequence, sha256 = l.sha256
    from unnest(${links.map(({ id }) => id)}::uuid[], ${links.map(({ sequence }) => sequence)}::bigint[], ${links.map(({ sha256 }) => sha256)}::bytea[])
      as l(id, sequence, sha256) where e.id = l.id`.execute(tx)
  await tx.updateTable('audit_chains').set({ sequence: last.sequence, sha256: last.sha256 }).where('chain_id', '=', chain_id).execute()
  return rows.length
}

/** @returns null if another process has locked the chain. */
async function lockChain(tx: Tx, chain_id: string): Promise<Link | null> {
  const { sequence, sha256 } = CHAIN_START
  const start = { chain_id, sequence, sha256, dropped_sequence: sequence, dropped_sha256: sha256 }
  await tx.insertInto('audit_chains').values(start).onConflict((c) => c.doNothing()).execute() // prettier-ignore
  const row = await tx
    .selectFrom('audit_chains')
    .select(['sequence', 'sha256'])
    .where('chain_id', '=', chain_id)
    .forUpdate()
    .skipLocked()
    .executeTakeFirst()
  return row ?? null
}

export async function dropEvents(db: Db, created_before: Date): Promise<number> {
  const { rows } = await sql<{ chain_id: string }>`select distinct coalesce(organization_id, ${INSTALLATION_CHAIN}::uuid) as chain_id from
    (select organization_id from audit_events where created_at < ${created_before} and sequence is not null order by created_at limit 5000) old`.execute(
    db,
  )
  let dropped = 0
  for (const { chain_id } of rows) dropped += await db.transaction().execute((tx) => dropOfChain(tx, chain_id, created_before))
  return dropped
}

async function dropOfChain(tx: Tx, chain_id: string, created_before: Date): Promise<number> {
  if ((await lockChain(tx, chain_id)) === null) return 0
  const rows = await tx
    .selectFrom('audit_events')
    .select(['id', 'sequence', 'sha256', 'created_at'])
    .where(ofChain(chain_id))
    .where('sequence', 'is not', null)
    .orderBy('sequence')
    .limit(5 * ROWS_MAX)
    .execute()
  const kept = rows.findIndex(({ created_at }) => created_at >= created_before)
  const old = kept === -1 ? rows : rows.slice(0, kept)
  const last = old.at(-1)
  if (last === undefined || last.sequence === null || last.sha256 === null) return 0
  await sql`delete from audit_events where id = any(${old.map(({ id }) => id)}::uuid[])`.execute(tx)
  const begin = { dropped_sequence: last.sequence, dropped_sha256: last.sha256 }
  await tx.updateTable('audit_chains').set(begin).where('chain_id', '=', chain_id).execute()
  return old.length
}

export interface Chain {
  chain_id: string
  /** null: the installation's chain, or an organization that is gone. */
  slug: string | null
  end: Link
  /** The last link that was deleted for its age. */
  dropped: Link
}

export async function listChains(db: Db): Promise<Chain[]> {
  const rows = await db
    .selectFrom('audit_chains as c')
    .leftJoin('organizations as o', 'o.id', 'c.chain_id')
    .select(['c.chain_id', 'o.slug', 'c.sequence', 'c.sha256', 'c.dropped_sequence', 'c.dropped_sha256'])
    .orderBy('c.chain_id')
    .execute()
  return rows.map(({ chain_id, slug, ...row }) => ({
    chain_id,
    slug,
    end: { sequence: row.sequence, sha256: row.sha256 },
    dropped: { sequence: row.dropped_sequence, sha256: row.dropped_sha256 },
  }))
}

export function eventsAfter(db: Db, chain_id: string, sequence: number, limit: number): Promise<EventRow[]> {
  return db
    .selectFrom('audit_events')
    .selectAll()
    .where(ofChain(chain_id))
    .where('sequence', '>', sequence)
    .orderBy('sequence')
    .limit(limit)
    .execute()
}

export async function countUnlinked(db: Db): Promise<number> {
  const { rows } = await sql<{ n: number }>`select count(*)::int as n from audit_events where sequence is null`.execute(db)
  return rows[0]?.n ?? 0
}

function ofChain(chain_id: string) {
  return chain_id === INSTALLATION_CHAIN ? sql<boolean>`organization_id is null` : sql<boolean>`organization_id = ${chain_id}`
}
