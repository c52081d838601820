import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { World } from '../api/support.ts'

/** The stored bytes are no real archive. */
export async function readyExport(
  { database, ids, clock }: Pick<World, 'database' | 'ids' | 'clock'>,
  of: { organization_id: string | null; requested_by: string },
  bytes = Buffer.from('{}'),
): Promise<string> {
  const id = ids.next()
  const now = clock.now()
  const said = { size_bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') }
  const times = { created_at: now, completed_at: now, next_try_at: now, expires_at: new Date(now.getTime() + 3600_000) }
  await database.superuser
    .insertInto('exports')
    .values({ id, ...of, state: 'ready', failure: null, attempt: 1, ...said, ...times })
    .execute()
  await database.superuser.insertInto('export_parts').values({ export_id: id, attempt: 1, number: 0, bytes }).execute()
  return id
}

/** The exports under test are the older ones of each half. */
export async function manyExports({ database, ids, clock, a, b }: World, many: number, person_id: string): Promise<void> {
  const [somebody, now] = [ids.next(), clock.now()]
  const db = database.superuser
  await db.insertInto('people').values({ id: somebody, email: 'somebody@example.com', display_name: null, created_at: now }).execute()
  await sql`insert into exports (id, organization_id, requested_by, state, next_try_at, created_at)
    select ('01920000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
      case when n % 2 = 0 then case when n > ${many / 2} then ${b.organization_id}::uuid else ${a.organization_id}::uuid end end,
      case when n % 2 = 1 and n > ${many / 2} then ${somebody}::uuid else ${person_id}::uuid end, 'expired', ${now}, ${now}
    from generate_series(1, ${many}) n`.execute(db)
}
