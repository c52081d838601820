import { sql } from 'kysely'
import { METERS } from '../../../contract/schemas/usage.ts'
import { SAMPLES, type SubjectKind } from '../../core/money/usage/store.ts'
import type { Db } from '../../db/database.ts'

const BATCH = 2000

const columns = sql.join(METERS.map((meter) => sql.ref(meter)))
const sums = sql.join(METERS.map((meter) => sql`sum(${sql.ref(meter)})::bigint as ${sql.ref(meter)}`))
const growth = sql.join(METERS.map((meter) => sql`u.${sql.ref(meter)} - coalesce(e.${sql.ref(meter)}, 0) as ${sql.ref(meter)}`))
const added = sql.join(METERS.map((meter) => sql`${sql.ref(meter)} = h.${sql.ref(meter)} + excluded.${sql.ref(meter)}`))
const anything = sql.join(
  METERS.map((meter) => sql`${sql.ref(meter)} <> 0`),
  sql` or `,
)

/** If a sample grew after its entry, another entry has the difference. Concurrent cells skip each other's rows. */
export async function closeHours(db: Db, kind: SubjectKind, before: Date, now: Date): Promise<{ closed: number; is_all: boolean }> {
  const source = SAMPLES[kind]
  const [table, id, units] = [sql.table(source.table), sql.ref(source.id), sql.raw(source.units)]
  const { rows } = await sql`
    with due as (
      -- as they are once they are locked: what another transaction has just added counts
      select s.${id} as subject_id, s.hour, s.organization_id, s.project_id, s.entries, ${units} from ${table} s
      where s.is_open and s.hour < ${before} order by s.hour, s.${id} limit ${BATCH} for update skip locked
    ), grown as (
      select u.subject_id, u.hour, u.organization_id, u.project_id, u.entries, ${growth} from due u
        left join lateral (
          select ${sums} from usage_entries e where u.entries > 0 and e.subject_id = u.subject_id and e.hour = u.hour
            and e.organization_id = u.organization_id and e.project_id is not distinct from u.project_id
        ) e on true
    ), written as (
      insert into usage_entries (subject_kind, subject_id, hour, organization_id, project_id, entry, ${columns}, written_at)
      select ${kind}, subject_id, hour, organization_id, project_id, entries, ${columns}, ${now} from grown where ${anything}
      returning organization_id, hour, project_id, subject_id, ${columns}
    ), summed as (
      insert into usage_hours as h (organization_id, hour, project_id, ${columns})
      select organization_id, hour, project_id, ${sums} from written group by 1, 2, 3 order by 1, 2, 3
      on conflict (organization_id, hour, project_id) do update set ${added}
    )
    update ${table} s set is_open = false, entries = s.entries + (w.subject_id is not null)::int
    from due d left join written w on w.subject_id = d.subject_id and w.hour = d.hour and w.organization_id = d.organization_id
      and w.project_id is not distinct from d.project_id
    where s.${id} = d.subject_id and s.hour = d.hour and s.organization_id = d.organization_id and s.project_id is not distinct from d.project_id
    returning s.hour`.execute(db)
  return { closed: rows.length, is_all: rows.length < BATCH }
}

export async function markMeasured(db: Db, cell_id: string, now: Date): Promise<void> {
  await db.updateTable('cells').set({ measured_at: now }).where('id', '=', cell_id).execute()
}
