import { sql } from 'kysely'
import { METERS } from '../../../../contract/schemas/usage.ts'
import type { Db } from '../../../db/database.ts'
import { SAMPLES, type SubjectKind } from './store.ts'

export interface Difference {
  /**
   * What was compared. entries: ledger with samples. hours: hourly sums with the ledger. open: sums of open hours with samples. counters:
   * samples with the machines' counters.
   */
  kind: 'entries' | 'hours' | 'open' | 'counters'
  /** Id of a workspace or volume; of an organization where sums are compared. */
  id: string
  hour: Date | null
  meter: string
  found: string
  should_be: string
}

const ROWS_MAX = 100

/**
 * Each comparison is one statement, so it never sees half of a concurrent write.
 * @param counters_since start of the kept counters: only workspaces first metered after it are compared with them.
 * @returns at most `ROWS_MAX` differences of each comparison.
 */
export async function findDifferences(db: Db, { from, to }: { from: Date; to: Date }, counters_since: Date): Promise<Difference[]> {
  const of_entries = await Promise.all((['workspace', 'volume'] as const).map((kind) => entriesOf(db, kind, from, to)))
  return [
    ...of_entries.flat(),
    ...(await hoursOf(db, from, to)),
    ...(await openOf(db, from, to)),
    ...(await countersOf(db, counters_since)),
  ]
}

async function entriesOf(db: Db, kind: SubjectKind, from: Date, to: Date): Promise<Difference[]> {
  const { table, id, units } = SAMPLES[kind]
  const sums = METERS.map((meter) => `coalesce(sum(e.${meter}), 0) as ${meter}`).join(', ')
  const pairs = METERS.map((meter) => `('${meter}', e.${meter}::text, u.${meter}::text)`).join(', ')
  const { rows } = await sql<Difference>`
    select 'entries' as kind, u.id, u.hour, m.meter, m.found, m.should_be
    from (select s.${sql.raw(id)} as id, s.hour, s.organization_id, s.project_id, ${sql.raw(units)} from ${sql.raw(table)} s
          where not s.is_open and s.hour between ${from} and ${to}) u
    cross join lateral (
      select ${sql.raw(sums)} from usage_entries e where e.subject_id = u.id and e.hour = u.hour
        and e.organization_id = u.organization_id and e.project_id is not distinct from u.project_id
    ) e
    cross join lateral (values ${sql.raw(pairs)}) m(meter, found, should_be)
    where m.found <> m.should_be order by u.hour limit ${ROWS_MAX}`.execute(db)
  return rows
}

async function hoursOf(db: Db, from: Date, to: Date): Promise<Difference[]> {
  const sums = METERS.map((meter) => `sum(${meter}) as ${meter}`).join(', ')
  const pairs = METERS.map((meter) => `('${meter}', coalesce(h.${meter}, 0)::text, coalesce(e.${meter}, 0)::text)`).join(', ')
  const { rows } = await sql<Difference>`
    select 'hours' as kind, coalesce(h.organization_id, e.organization_id) as id, coalesce(h.hour, e.hour) as hour, m.meter, m.found, m.should_be
    from (select * from usage_hours where hour between ${from} and ${to}) h
    full join (select organization_id, hour, coalesce(project_id, '00000000-0000-0000-0000-000000000000') as project_id, ${sql.raw(sums)}
      from usage_entries where hour between ${from} and ${to} group by 1, 2, 3) e
      on e.organization_id = h.organization_id and e.hour = h.hour
        and e.project_id = coalesce(h.project_id, '00000000-0000-0000-0000-000000000000')
    cross join lateral (values ${sql.raw(pairs)}) m(meter, found, should_be)
    where m.found <> m.should_be order by 3 limit ${ROWS_MAX}`.execute(db)
  return rows
}

async function openOf(db: Db, from: Date, to: Date): Promise<Difference[]> {
  const sums = METERS.map((meter) => `sum(${meter}) as ${meter}`).join(', ')
  const taken = METERS.map((meter) => `-e.${meter}`).join(', ')
  const pairs = METERS.map((meter) => `('${meter}', coalesce(o.${meter}, 0)::text, coalesce(s.${meter}, 0)::text)`).join(', ')
  const samples = (['workspace', 'volume'] as const).map((kind) => {
    const { table, id, units } = SAMPLES[kind]
    return `select s.organization_id, s.hour, s.project_id, ${units} from ${table} s where is_open
      union all select s.organization_id, s.hour, s.project_id, ${taken} from ${table} s join usage_entries e on e.subject_id = s.${id} and e.hour = s.hour
        and e.organization_id = s.organization_id and e.project_id is not distinct from s.project_id where s.is_open and s.entries > 0`
  })
  const { rows } = await sql<Difference>`
    select 'open' as kind, coalesce(o.organization_id, s.organization_id) as id, coalesce(o.hour, s.hour) as hour, m.meter, m.found, m.should_be
    from (select organization_id, hour, ${sql.raw(sums)} from usage_open_hours where hour between ${from} and ${to} group by 1, 2) o
    full join (select organization_id, hour, ${sql.raw(sums)} from (${sql.raw(samples.join(' union all '))}) u
      where hour between ${from} and ${to} group by 1, 2) s using (organization_id, hour)
    cross join lateral (values ${sql.raw(pairs)}) m(meter, found, should_be)
    where m.found <> m.should_be order by 3 limit ${ROWS_MAX}`.execute(db)
  return rows
}

async function countersOf(db: Db, since: Date): Promise<Difference[]> {
  const { rows } = await sql<Difference>`
    select 'counters' as kind, s.workspace_id as id, null as hour, m.meter, m.found, m.should_be
    from (select workspace_id, sum(cpu_usec) as cpu_usec, sum(rx_bytes) as rx_bytes, sum(tx_bytes) as tx_bytes
          from usage_samples where hour > ${since} group by 1) s
    join (select workspace_id, sum(cpu_usec) as cpu_usec, sum(rx_bytes) as rx_bytes, sum(tx_bytes) as tx_bytes from usage_counters group by 1) c
      using (workspace_id)
    cross join lateral (values ('cpu_usec', s.cpu_usec::text, c.cpu_usec::text), ('ingress_bytes', s.rx_bytes::text, c.rx_bytes::text),
      ('egress_bytes', s.tx_bytes::text, c.tx_bytes::text)) m(meter, found, should_be)
    where m.found <> m.should_be and not exists (select from usage_samples b where b.workspace_id = s.workspace_id and b.hour <= ${since})
    order by 2 limit ${ROWS_MAX}`.execute(db)
  return rows
}

export async function countLate(db: Db, before: Date): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select (select count(*) from usage_samples where is_open and hour < ${before})::integer
      + (select count(*) from volume_usage_samples where is_open and hour < ${before})::integer as count`.execute(db)
  return rows[0]?.count ?? 0
}
