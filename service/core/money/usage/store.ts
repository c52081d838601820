import { METERS, type Granularity, type Units } from '../../../../contract/schemas/usage.ts'
import type { Reader } from '../../../db/reader.ts'

/** Tables of samples. `units` converts a sample `s` to the whole units of its hour (App, "Usage facts"). */
export const SAMPLES = {
  workspace: {
    table: 'usage_samples',
    id: 'workspace_id',
    units: `s.cpu_usec / 1000000 as cpu_seconds, usage_gib_seconds(s.memory_byte_ms) as memory_gib_seconds,
      usage_gib_seconds(s.disk_byte_ms + s.checkpoint_byte_ms) as storage_gib_seconds, s.tx_bytes + s.port_sent_bytes as egress_bytes,
      s.rx_bytes + s.port_received_bytes as ingress_bytes, 0::bigint as volume_storage_gib_seconds`,
  },
  volume: {
    table: 'volume_usage_samples',
    id: 'volume_id',
    units: `0::bigint as cpu_seconds, 0::bigint as memory_gib_seconds, 0::bigint as storage_gib_seconds, 0::bigint as egress_bytes,
      0::bigint as ingress_bytes, usage_gib_seconds(s.stored_byte_ms) as volume_storage_gib_seconds`,
  },
} as const
export type SubjectKind = keyof typeof SAMPLES

export interface UsageScope {
  organization_id: string
  project_id: string | null
  subject: { kind: SubjectKind; id: string } | null
}

/** A range of hours that includes both ends. */
export interface UsageRange {
  from: Date
  to: Date
}

const SUMS = METERS.map((meter) => `coalesce(sum(${meter}), 0)::bigint as ${meter}`).join(', ')
const LISTED = METERS.join(', ')
const IN_RANGE = `organization_id = $1 and ($2::uuid is null or project_id = $2) and hour between date_trunc('hour', $3::timestamptz, 'UTC') and $4`

/** Units that are not in the ledger yet: open samples minus their earlier entries. */
function openUnits(kind: SubjectKind): string {
  const { table, id, units } = SAMPLES[kind]
  const open = `select * from ${table} where is_open and ${IN_RANGE} and ${id} = $5`
  return `
    select u.hour, ${LISTED} from (select s.hour, ${units} from (${open}) s) u
    union all
    select e.hour, ${METERS.map((meter) => `-e.${meter}`).join(', ')} from (${open} and entries > 0) s
      join usage_entries e on e.subject_id = s.${id} and e.hour = s.hour and e.organization_id = s.organization_id
        and e.project_id is not distinct from s.project_id`
}

/** Reads hourly sums, because their number of rows depends on projects, not on workspaces. */
const OF_ALL = `
  select hour, ${LISTED} from usage_hours where ${IN_RANGE}
  union all select hour, ${LISTED} from usage_open_hours where ${IN_RANGE}`

const OF_SUBJECT = (kind: SubjectKind) => `
  select hour, ${LISTED} from usage_entries where subject_kind = '${kind}' and subject_id = $5 and ${IN_RANGE}
  union all ${openUnits(kind)}`

function sourceOf({ subject }: UsageScope): { name: string; text: string } {
  return subject === null ? { name: 'all', text: OF_ALL } : { name: subject.kind, text: OF_SUBJECT(subject.kind) }
}

function valuesOf({ organization_id, project_id, subject }: UsageScope, { from, to }: UsageRange): unknown[] {
  return [organization_id, project_id, from, to, ...(subject === null ? [] : [subject.id])]
}

/** Final hours come from the ledger, others from the samples. */
export function readUsage(
  reads: Reader,
  scope: UsageScope,
  range: UsageRange,
  granularity: Granularity,
): Promise<({ at: Date } & Units)[]> {
  const { name, text } = sourceOf(scope)
  const by = granularity === 'day' ? 'day' : 'hour'
  return reads.rows(
    `usage.${name}_by_${by}`,
    `select date_trunc('${by}', hour, 'UTC') as at, ${SUMS} from (${text}) u group by 1 order by 1`,
    valuesOf(scope, range),
  )
}

export async function readUsageTotals(reads: Reader, scope: UsageScope, range: UsageRange): Promise<Units> {
  const { name, text } = sourceOf(scope)
  const [totals] = await reads.rows<Units>(`usage.${name}_in_all`, `select ${SUMS} from (${text}) u`, valuesOf(scope, range))
  if (totals === undefined) throw new Error('A sum without a row')
  return totals
}

export async function readMeasuredThrough(reads: Reader, organization_id: string): Promise<Date | null> {
  const [row] = await reads.rows<{ measured_at: Date | null }>(
    'usage.measured_through',
    `select coalesce(
      (select min(coalesce(c.measured_at, '-infinity')) from cells c
        where exists (select from workspaces w where w.cell_id = c.id and w.organization_id = $1 and w.deleted_at is null)),
      (select max(measured_at) from cells)) as measured_at`,
    [organization_id],
  )
  const at = row?.measured_at ?? null
  return at instanceof Date ? at : null
}
